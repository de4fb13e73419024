"""A release's queue as operators see it: who waits, for how long, and when they will likely begin.

`waiting` is the one place that knows how the queue lies in Redis; what is shown is made from it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from inference import redis_keys
from inference.services import estimates
from inference.services.estimates import Estimate
from kernel.redis import Client

# The queue's limit can be set higher; those behind are counted and not looked at.
LOOKED_AT = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """One request that waits; place: 1 being next; priority_class: None while there is one only."""

    tenant_id: str
    priority_class: str | None
    waited_s: float
    place: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one tenant has waiting in one class.

    oldest_s: how long the longest of them has waited
    last_begins: when the last of them is likely to, None while nothing is known to tell it from
    """

    tenant_id: str
    priority_class: str | None
    waiting: int
    oldest_s: float
    last_begins: Estimate | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """waiting: in all, also those beyond what was looked at; shares: the longest wait first"""

    waiting: int
    shares: list[Share]


class _Whose(msgspec.Struct):
    """The part of a queued request that is asked for."""

    tenant_id: str


_whose = msgspec.msgpack.Decoder(_Whose)
# Generation id to tenant, so that each request is fetched once, not every second.
_known: OrderedDict[str, str] = OrderedDict()


async def queue_view(redis: Client, release_id: str) -> QueueView:
    total, found = await waiting(redis, release_id)
    groups: dict[tuple[str, str | None], list[Waiting]] = {}
    for each in found:
        groups.setdefault((each.tenant_id, each.priority_class), []).append(each)
    shares = await asyncio.gather(*(_share(redis, release_id, group) for group in groups.values()))
    return QueueView(total, sorted(shares, key=lambda share: -share.oldest_s))


async def _share(redis: Client, release_id: str, group: Sequence[Waiting]) -> Share:
    last = max(each.place for each in group)
    return Share(
        tenant_id=group[0].tenant_id,
        priority_class=group[0].priority_class,
        waiting=len(group),
        oldest_s=max(each.waited_s for each in group),
        last_begins=await estimates.estimate(redis, release_id, last),
    )


async def waiting(redis: Client, release_id: str) -> tuple[int, list[Waiting]]:
    """How many wait, and the first of them in the order in which they will begin."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.zcard(redis_keys.queue(release_id))
    pipeline.zrange(redis_keys.queue(release_id), 0, LOOKED_AT - 1, withscores=True)
    pipeline.time()
    total, arrived, (seconds, microseconds) = await pipeline.execute()
    now_us = seconds * 1_000_000 + microseconds
    tenants = await _tenants(redis, [raw.decode() for raw, _ in arrived])
    found = [
        Waiting(tenant_id, None, max(0.0, now_us - arrived_us) / 1e6, place)
        for place, ((raw, arrived_us), tenant_id) in enumerate(
            zip(arrived, tenants, strict=True), start=1
        )
        if tenant_id is not None
    ]
    return int(total), found


async def _tenants(redis: Client, generation_ids: Sequence[str]) -> list[str | None]:
    """Whose each is; None for one that has left the queue meanwhile."""
    new = [name for name in generation_ids if name not in _known]
    raw = await redis.mget([redis_keys.request(name) for name in new]) if new else []
    for name, request in zip(new, raw, strict=True):
        if request:
            _known[name] = _whose.decode(request).tenant_id
    while len(_known) > 10 * LOOKED_AT:
        _known.popitem(last=False)
    return [_known.get(name) for name in generation_ids]
