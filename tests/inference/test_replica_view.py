"""What operators are told of replicas and queues."""

from __future__ import annotations

import msgspec
import pytest

from inference import queue, redis_keys, registry, replica_history
from inference.host.presence import Presence
from inference.messages import ReplicaRecord
from inference.replica_history import LatencySpan
from inference.services import estimates, queue_view, replicas
from kernel.redis import Client
from tests.inference.making import START, Records, StoppedClock, request

NOW_S = START.timestamp()


def record(incarnation: str, replica: str = "engine", *, since: float = NOW_S) -> ReplicaRecord:
    return ReplicaRecord(replica, incarnation, "rel_a", "fake", "ready", since=since, running=2)


async def there(redis: Client, which: ReplicaRecord, *, at: float = NOW_S) -> None:
    await registry.renew(redis, which, timeout_s=60)
    await replica_history.note(redis, which, now_s=at)


async def states(redis: Client) -> dict[str, str]:
    return {each.record.incarnation: each.record.state for each in await replicas.replicas(redis)}


async def test_replicas_are_shown_as_they_say(redis: Client) -> None:
    await there(redis, record("inc_b", "engine-b"))
    await there(redis, record("inc_a", "engine-a"))
    await replica_history.note(redis, record("inc_a", "engine-a"), now_s=NOW_S, rate=12.34)
    await replica_history.note(redis, record("inc_a", "engine-a"), now_s=NOW_S, rate=20)
    first, second = await replicas.replicas(redis)
    assert (first.record, first.rates) == (record("inc_a", "engine-a"), [12.3, 20.0])
    assert (second.record, second.rates) == (record("inc_b", "engine-b"), [])


async def test_one_that_fell_silent_is_lost_since_it_was_last_heard_of(redis: Client) -> None:
    await there(redis, record("inc_a"), at=NOW_S + 5)
    await registry.lose(redis, "inc_a")
    (found,) = await replicas.replicas(redis)
    assert (found.record.state, found.record.since, found.record.running) == ("lost", NOW_S + 5, 0)
    # Others have gone on with what it ran; it stays in sight.
    await registry.forget(redis, "inc_a")
    assert await states(redis) == {"inc_a": "lost"}


async def test_one_that_left_in_order_is_not_lost(redis: Client) -> None:
    await there(redis, record("inc_a"))
    await registry.leave(redis, "inc_a")
    assert await states(redis) == {}
    assert await redis.keys("*") == []


async def test_one_that_leaves_while_it_is_looked_at_is_not_lost(
    redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await there(redis, record("inc_a"))
    look = registry.replicas

    async def leaves_just_then(redis: Client) -> list[ReplicaRecord]:
        await registry.leave(redis, "inc_a")
        return await look(redis)

    monkeypatch.setattr(registry, "replicas", leaves_just_then)
    assert await states(redis) == {}


@pytest.mark.parametrize("name", ["engine", "engine@2"])
async def test_a_lost_one_is_forgotten_when_another_takes_its_place(
    redis: Client, name: str
) -> None:
    await there(redis, record("inc_a"))
    await registry.lose(redis, "inc_a")
    await there(redis, record("inc_b", "engine-other", since=NOW_S + 9))
    await there(redis, msgspec.structs.replace(record("inc_c"), release_id="rel_b"))
    await there(redis, record("inc_d", since=NOW_S - 9))
    assert (await states(redis))["inc_a"] == "lost"
    await there(redis, record("inc_e", name, since=NOW_S + 9))
    assert "inc_a" not in await states(redis)


async def test_a_lost_one_is_forgotten_in_time(redis: Client) -> None:
    await there(redis, record("inc_a"))
    await registry.lose(redis, "inc_a")
    later = NOW_S + replica_history.SEEN_TTL_S + 1
    await there(redis, record("inc_b", "engine-b"), at=later)
    assert await states(redis) == {"inc_b": "ready"}


async def test_so_many_spans_are_kept(redis: Client) -> None:
    for rate in range(replica_history.SPANS_KEPT + 5):
        of_then = msgspec.structs.replace(record("inc_a"), limit=rate, itl_p95_s=rate / 1000)
        await replica_history.note(redis, of_then, now_s=NOW_S, rate=rate)
    (seen,) = await replica_history.seen(redis)
    assert [each.limit for each in seen.latencies] == list(range(5, len(seen.latencies) + 5))
    assert seen.latencies[0] == LatencySpan(itl_p95_s=0.005, objective_s=0.0, limit=5)
    assert len(seen.latencies) == replica_history.SPANS_KEPT
    assert seen.rates == [float(rate) for rate in range(5, replica_history.SPANS_KEPT + 5)]


async def test_a_presence_tells_since_when_and_how_fast(redis: Client) -> None:
    clock = StoppedClock()
    presence = Presence(redis, record("inc_a", since=0), clock)
    presence.record = msgspec.structs.replace(presence.record, state="loading")
    clock.advance(10)
    for made in range(7):
        await presence.renew(state="ready", output_tokens=made * 20, running=1, held=0, waiting=0)
        clock.advance(1)
    (found,) = await replicas.replicas(redis)
    assert found.record.since == NOW_S + 10
    assert (found.record.tokens_per_s, found.record.output_tokens) == (20, 120)
    assert found.rates == [20.0]


async def test_a_lost_one_stays_forgotten_when_its_follower_leaves(redis: Client) -> None:
    clock = StoppedClock()
    await there(redis, record("inc_a"))
    await registry.lose(redis, "inc_a")
    await there(redis, record("inc_b", "engine-other"))
    await registry.lose(redis, "inc_b")
    await there(redis, record("inc_c", "engine@2"))
    clock.advance(10)
    follower = msgspec.structs.replace(record("inc_d"), state="loading")
    await Presence(redis, follower, clock).renew(state="ready", output_tokens=1)
    await registry.leave(redis, "inc_d")
    # The other place is free, and the one before it in a restart is still there.
    assert await states(redis) == {"inc_b": "lost", "inc_c": "ready"}


async def test_the_queue_by_tenant(redis: Client) -> None:
    asked = [request(tenant) for tenant in ("ten_b", "ten_a", "ten_b", "ten_b")]
    for each in asked:
        await queue.enqueue(redis, each)
    await queue.claim(redis, "rel_a", "inc_a")
    score = await redis.zscore(redis_keys.queue("rel_a"), asked[1].generation_id)
    await redis.zadd(redis_keys.queue("rel_a"), {asked[1].generation_id: score - 60_000_000})
    view = await queue_view.queue_view(redis, "rel_a")
    assert view.waiting == 3
    assert [(share.tenant_id, share.waiting) for share in view.shares] == [
        ("ten_a", 1),
        ("ten_b", 2),
    ]
    assert view.shares[0].oldest_s >= 60
    assert [share.last_begins for share in view.shares] == [None, None]


async def test_when_the_last_of_a_tenant_begins(redis: Client) -> None:
    for tenant in ("ten_b", "ten_a", "ten_b", "ten_b"):
        await queue.enqueue(redis, request(tenant))
    await estimates.note_outputs(redis, "rel_a", [10] * 5)
    second, _ = await redis.time()
    served = {second - ago: 20 for ago in range(1, 31)}
    await redis.hset(f"{redis_keys.share('rel_a')}:service", mapping=served)
    view = await queue_view.queue_view(redis, "rel_a")
    begins = {share.tenant_id: share.last_begins for share in view.shares}
    first, last = begins["ten_a"], begins["ten_b"]
    assert first is not None
    assert last is not None
    assert 0 <= first.p50_s < last.p50_s <= last.p90_s
    assert {share.priority_class for share in view.shares} == {"standard"}


async def test_releases_that_nothing_waits_for_are_left_out(
    redis: Client, records: Records
) -> None:
    assert await replicas.queues(redis) == []


async def test_releases_that_something_waits_for(redis: Client, records: Records) -> None:
    await queue.enqueue(redis, request())
    ((release, view),) = await replicas.queues(redis)
    assert (release, view.waiting) == ("fake", 1)
