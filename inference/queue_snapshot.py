"""What waits in a release's queue and how its tenants stand, read at one moment for a forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from inference import redis_keys
from inference.capacity import Capacity
from kernel.redis import Client
from tenants.priority import CLASSES, PriorityClass

RATE_WINDOW_S = 30
# As in lua/fair_share.lua; fewer arrivals than these in it say nothing of what comes next.
FADE_S, LEAST_ARRIVALS = 60, 0.2
# Of the logarithm of a factor: more than 20 is no correction any more.
MOST_CORRECTION = 3.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request that waits; goes_on: it was interrupted, has paid and comes first."""

    generation_id: str
    tenant_id: str
    priority_class: PriorityClass
    prompt_tokens: int
    max_tokens: int
    weight: float
    arrived_us: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """What one tenant has asked for lately, in one class."""

    priority_class: PriorityClass
    tenant_id: str
    per_s: float
    prompt_tokens: int
    weight: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """waiting: by arrival
    counters: by class, the virtual counters of its tenants
    owed: by class, the service owed to it by those above
    service_rate: tokens by their cost a second, lately; 0 where nothing was done
    outputs: recent answers' lengths, in tokens
    corrections: by class, the logarithm of the factor that made the p90 of waits come true
    capacity: what the replicas may run now
    """

    waiting: list[Waiting]
    counters: Mapping[str, Mapping[str, float]]
    owed: Mapping[str, float]
    service_rate: float
    outputs: list[int]
    demands: Sequence[Demand] = ()
    corrections: Mapping[str, float] = field(default_factory=dict)
    capacity: Capacity = field(default_factory=Capacity)


async def read(redis: Client, release_id: str, *, now_us: int | None = None) -> Snapshot:
    share = redis_keys.share(release_id)
    pipeline = redis.pipeline()
    pipeline.zrange(redis_keys.queue(release_id), 0, -1, withscores=True)
    pipeline.hgetall(redis_keys.queue_sizes(release_id))
    pipeline.hgetall(share)
    pipeline.hgetall(f"{share}:service")
    pipeline.lrange(redis_keys.outputs(release_id), 0, -1)
    pipeline.hgetall(redis_keys.corrections(release_id))
    pipeline.time()
    for each in CLASSES:
        pipeline.zrange(f"{share}:{each}:counters", 0, -1, withscores=True)
        pipeline.zrange(f"{share}:{each}:restored", 0, -1)
        pipeline.hgetall(f"{share}:{each}:arrivals")
    ids, sizes, books, buckets, outputs, corrections, time, *of_classes = await pipeline.execute()
    now = time[0] + time[1] / 1e6 if now_us is None else now_us / 1e6
    restored = {name for names in of_classes[1::3] for name in names}
    return Snapshot(
        waiting=[
            _waiting(name, sizes[name], arrived, name in restored)
            for name, arrived in ids
            if name in sizes
        ],
        counters={
            each: {name.decode(): counter for name, counter in found}
            for each, found in zip(CLASSES, of_classes[::3], strict=True)
        },
        owed={each: float(books.get(b"owed:" + each.encode(), 0)) for each in CLASSES},
        service_rate=_rate(buckets, int(books.get(b"busy_since", 0)) / 1e6, now),
        outputs=[int(raw) for raw in outputs],
        demands=[
            demand
            for each, arrivals in zip(CLASSES, of_classes[2::3], strict=True)
            for name, raw in arrivals.items()
            if (demand := _demand(each, name, raw, now)) is not None
        ],
        corrections={
            each: max(-MOST_CORRECTION, min(MOST_CORRECTION, float(raw)))
            for each in CLASSES
            if (raw := corrections.get(each.encode())) is not None
        },
    )


def _waiting(name: bytes, size: bytes, arrived_us: float, goes_on: bool) -> Waiting:
    prompt, most, weight, priority_class, tenant_id = size.decode().split(" ", 4)
    return Waiting(
        generation_id=name.decode(),
        tenant_id=tenant_id,
        priority_class=cast(PriorityClass, priority_class),
        prompt_tokens=int(prompt),
        max_tokens=int(most),
        weight=float(weight),
        arrived_us=int(arrived_us),
        goes_on=goes_on,
    )


def _demand(priority_class: PriorityClass, name: bytes, raw: bytes, now: float) -> Demand | None:
    """None for one that has not asked for a while."""
    count, tokens, weight, at_us = map(float, raw.split())
    faded = count * math.exp(-max(0.0, now - at_us / 1e6) / FADE_S)
    if faded < LEAST_ARRIVALS:
        return None
    return Demand(priority_class, name.decode(), faded / FADE_S, round(tokens / count), weight)


def _rate(buckets: Mapping[bytes, bytes], busy_since: float, now: float) -> float:
    """Service a second of the last half minute, or of the part of it in which something waited:
    what was done while nobody waited says what was asked for, not what can be done.
    """
    this_second = int(now)
    busy = min(RATE_WINDOW_S, max(0, this_second - int(busy_since)))
    # What a second or two say is chance; then everything there is has to do.
    window = busy if busy >= 3 else RATE_WINDOW_S
    since = this_second - window
    done = sum(float(raw) for second, raw in buckets.items() if since <= int(second) < this_second)
    return done / window
