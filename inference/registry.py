"""Which replicas there are: each renews a record in Redis; a record that has expired means a lost
replica.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference import messages, redis_keys, replica_history, scripts
from inference.messages import QueuedRequest, ReplicaRecord
from kernel.redis import Client


async def renew(redis: Client, record: ReplicaRecord, *, timeout_s: float) -> bool:
    """Write the record for the next `timeout_s` seconds; whether it had lapsed, or never was."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.set(
        redis_keys.replica(record.incarnation),
        messages.encode(record),
        px=int(timeout_s * 1000),
        get=True,
    )
    pipeline.sadd(redis_keys.REPLICAS, record.incarnation)
    before, _ = await pipeline.execute()
    return before is None


async def leave(redis: Client, incarnation: str) -> None:
    """Take a replica out that has nothing left to settle."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.delete(redis_keys.replica(incarnation), *_of_its_own(incarnation))
    pipeline.srem(redis_keys.REPLICAS, incarnation)
    replica_history.forget(pipeline, incarnation)
    await pipeline.execute()


async def forget(redis: Client, incarnation: str) -> None:
    """Take a lost replica out; it stays while it is heard of again or has anything unsettled."""
    keys = [
        redis_keys.replica(incarnation),
        redis_keys.running(incarnation),
        redis_keys.REPLICAS,
        *_of_its_own(incarnation),
    ]
    await scripts.run(redis, "forget", keys, [incarnation])


def _of_its_own(incarnation: str) -> list[str]:
    """What nobody needs once the replica is gone."""
    return [
        redis_keys.control(incarnation),
        redis_keys.prefixes(incarnation),
        redis_keys.host_bell(incarnation),
    ]


async def lose(redis: Client, incarnation: str) -> None:
    """Declare a replica lost at once, instead of when its record expires."""
    await redis.delete(redis_keys.replica(incarnation))


async def replicas(redis: Client) -> list[ReplicaRecord]:
    """The replicas that are heard of, loading ones too."""
    incarnations = [name.decode() for name in await redis.smembers(redis_keys.REPLICAS)]
    if not incarnations:
        return []
    records = await redis.mget([redis_keys.replica(name) for name in incarnations])
    return [messages.decode_replica(raw) for raw in records if raw]


async def lost(redis: Client, among: Iterable[str] | None = None) -> set[str]:
    """Incarnations that are no longer heard of; all registered ones are looked at unless `among`
    names some.
    """
    if among is None:
        among = [name.decode() for name in await redis.smembers(redis_keys.REPLICAS)]
    names = list(among)
    if not names:
        return set()
    records = await redis.mget([redis_keys.replica(name) for name in names])
    return {name for name, raw in zip(names, records, strict=True) if raw is None}


async def unsettled(redis: Client, incarnation: str) -> list[QueuedRequest]:
    """What a replica had taken and not settled."""
    held = await redis.hgetall(redis_keys.running(incarnation))
    return [messages.decode_request(raw) for raw in held.values()]


async def settled(redis: Client, incarnation: str, request: QueuedRequest) -> None:
    """Take out what is settled; a later turn of it, which the replica has taken since, stays."""
    keys = [redis_keys.running(incarnation)]
    await scripts.run(redis, "settled", keys, [request.generation_id, request.turn])
