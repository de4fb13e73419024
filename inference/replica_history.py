"""How replicas were lately: what each made, span by span, and the last that was heard of those that
fell silent. For operators to look at; nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference import messages, redis_keys
from inference.messages import ReplicaRecord
from kernel.redis import Client

# One rate for each span of so many seconds; five minutes of them are kept.
SPAN_S = 5.0
SPANS_KEPT = 60
# How long a lost replica is remembered.
SEEN_TTL_S = 600


@dataclass(frozen=True, slots=True)
class LatencySpan:
    """At a span's end: the p95 between tokens, its objective (0 for none), how many might run."""

    itl_p95_s: float
    objective_s: float
    limit: int


@dataclass(frozen=True, slots=True)
class Seen:
    """record: as last told; at: when, in Unix seconds; rates: tokens a second, the oldest first
    latencies: of the same spans
    """

    record: ReplicaRecord
    at: float
    rates: list[float]
    latencies: list[LatencySpan]


async def note(
    redis: Client, record: ReplicaRecord, *, now_s: float, rate: float | None = None
) -> None:
    """Remember how a replica is. now_s: Unix seconds; rate: tokens a second of the span that has
    just ended.
    """
    rates = redis_keys.replica_rates(record.incarnation)
    latencies = redis_keys.replica_latencies(record.incarnation)
    pipeline = redis.pipeline(transaction=False)
    pipeline.set(
        redis_keys.replica_seen(record.incarnation), messages.encode(record), ex=SEEN_TTL_S
    )
    pipeline.zadd(redis_keys.REPLICAS_SEEN, {record.incarnation: now_s})
    pipeline.zremrangebyscore(redis_keys.REPLICAS_SEEN, "-inf", now_s - SEEN_TTL_S)
    if rate is not None:
        pipeline.rpush(rates, f"{rate:.1f}")
        pipeline.ltrim(rates, -SPANS_KEPT, -1)
        pipeline.rpush(latencies, f"{record.itl_p95_s:.4f} {record.objective_s} {record.limit}")
        pipeline.ltrim(latencies, -SPANS_KEPT, -1)
    pipeline.expire(rates, SEEN_TTL_S)
    pipeline.expire(latencies, SEEN_TTL_S)
    await pipeline.execute()


async def seen(redis: Client) -> list[Seen]:
    """Every replica that was there in the last ten minutes and has not left in order."""
    found = await redis.zrange(redis_keys.REPLICAS_SEEN, 0, -1, withscores=True)
    names = [(raw.decode(), at) for raw, at in found]
    if not names:
        return []
    pipeline = redis.pipeline(transaction=False)
    for name, _ in names:
        pipeline.get(redis_keys.replica_seen(name))
        pipeline.lrange(redis_keys.replica_rates(name), 0, -1)
        pipeline.lrange(redis_keys.replica_latencies(name), 0, -1)
    told = await pipeline.execute()
    of_each = zip(names, told[::3], told[1::3], told[2::3], strict=True)
    return [
        Seen(messages.decode_replica(record), at, _numbers(rates), _latencies(latencies))
        for (_, at), record, rates, latencies in of_each
        if record
    ]


def forget(pipeline: Client, incarnation: str) -> None:
    """Add to a pipeline what takes a replica out that has left in order."""
    pipeline.delete(
        redis_keys.replica_seen(incarnation),
        redis_keys.replica_rates(incarnation),
        redis_keys.replica_latencies(incarnation),
    )
    pipeline.zrem(redis_keys.REPLICAS_SEEN, incarnation)


def _numbers(raw: Sequence[bytes]) -> list[float]:
    return [float(each) for each in raw]


def _latencies(raw: Sequence[bytes]) -> list[LatencySpan]:
    found = (each.decode().split() for each in raw)
    return [LatencySpan(float(p95), float(wanted), int(limit)) for p95, wanted, limit in found]
