from __future__ import annotations

from inference import redis_keys, registry
from inference.messages import ReplicaRecord
from kernel.redis import Client
from tests.inference.making import leased


def record(incarnation: str, state: str = "ready") -> ReplicaRecord:
    return ReplicaRecord("engine", incarnation, "rel_a", "fake", state)


async def test_a_replica_is_there_as_long_as_it_renews_its_record(redis: Client) -> None:
    await registry.renew(redis, record("inc_a", "loading"), timeout_s=60)
    await registry.renew(redis, record("inc_a"), timeout_s=60)
    await registry.renew(redis, record("inc_b"), timeout_s=60)
    found = await registry.replicas(redis)
    assert sorted(found, key=lambda each: each.incarnation) == [record("inc_a"), record("inc_b")]
    assert await registry.lost(redis) == set()
    assert 0 < await redis.pttl(redis_keys.replica("inc_a")) <= 60_000


async def test_a_record_that_expired_means_a_lost_replica(redis: Client) -> None:
    await registry.renew(redis, record("inc_a"), timeout_s=60)
    await registry.renew(redis, record("inc_b"), timeout_s=60)
    await redis.pexpire(redis_keys.replica("inc_a"), 0)
    assert await registry.lost(redis) == {"inc_a"}
    assert await registry.lost(redis, ["inc_a"]) == {"inc_a"}
    assert await registry.lost(redis, ["inc_b"]) == set()
    assert await registry.lost(redis, []) == set()
    assert [each.incarnation for each in await registry.replicas(redis)] == ["inc_b"]


async def test_a_replica_that_leaves_is_not_lost(redis: Client) -> None:
    await registry.renew(redis, record("inc_a"), timeout_s=60)
    await registry.leave(redis, "inc_a")
    assert await registry.lost(redis) == set()
    assert await redis.keys("*") == []


async def test_a_replica_that_gives_up_is_lost_at_once(redis: Client) -> None:
    await registry.renew(redis, record("inc_a"), timeout_s=60)
    await registry.lose(redis, "inc_a")
    assert await registry.lost(redis) == {"inc_a"}


async def test_unsettled_is_what_was_taken_and_not_settled(redis: Client) -> None:
    first, second = await leased(redis, "inc_a"), await leased(redis, "inc_a")
    await registry.settled(redis, "inc_a", first)
    assert await registry.unsettled(redis, "inc_a") == [second]
    assert await registry.unsettled(redis, "inc_b") == []
