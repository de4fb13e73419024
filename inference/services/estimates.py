"""How long a request will wait: from how many are ahead, how many run and how long answers take.

A place in the queue is reached when as many answers have ended as are ahead. With `running` answers
at work, each taking about the recent mean, they end at running / mean a second; the 90th percentile
adds what the spread of recent answers makes of a sum of that many (normal approximation).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from inference import redis_keys, registry
from inference.messages import ReplicaRecord
from kernel.redis import Client

KEPT = 64
FEWEST = 3
TTL_S = 3600
Z_90 = 1.2816


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds until the request begins: as likely later as sooner, and sooner in nine of ten."""

    p50_s: float
    p90_s: float


async def note_executions(redis: Client, release_id: str, seconds: Sequence[float]) -> None:
    """Remember how long answers took."""
    if not seconds:
        return
    key = redis_keys.executions(release_id)
    pipeline = redis.pipeline(transaction=False)
    pipeline.lpush(key, *(f"{each:.3f}" for each in seconds))
    pipeline.ltrim(key, 0, KEPT - 1)
    pipeline.expire(key, TTL_S)
    await pipeline.execute()


async def estimate(redis: Client, release_id: str, place: int) -> Estimate | None:
    """For a place in the queue, 1 being next; None while nothing is known to tell it from."""
    recent = await redis.lrange(redis_keys.executions(release_id), 0, -1)
    replicas = [each for each in await registry.replicas(redis) if each.release_id == release_id]
    return from_recent([float(raw) for raw in recent], _at_work(replicas), place)


def from_recent(executions_s: list[float], at_work: int, place: int) -> Estimate | None:
    """The estimate itself, without Redis."""
    if len(executions_s) < FEWEST or at_work < 1:
        return None
    mean, spread = statistics.fmean(executions_s), statistics.pstdev(executions_s)
    p50 = place * mean / at_work
    return Estimate(p50, p50 + Z_90 * spread * math.sqrt(place) / at_work)


def _at_work(replicas: list[ReplicaRecord]) -> int:
    return sum(each.running + each.waiting for each in replicas if each.state == "ready")
