"""A release's queue as operators see it: who waits, how long, and when they will likely begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference.forecast import Wait
from inference.queue_snapshot import Waiting
from inference.services.estimates import Forecast, forecasts
from kernel.redis import Client
from tenants.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Share:
    """What one tenant has waiting in one class.

    oldest_s: how long the longest of them has waited
    last_begins: when the last of them is likely to, None while nothing is known to tell it from
    """

    tenant_id: str
    priority_class: PriorityClass
    waiting: int
    oldest_s: float
    last_begins: Wait | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """waiting: in all; shares: the longest wait first"""

    waiting: int
    shares: list[Share]


async def queue_view(redis: Client, release_id: str) -> QueueView:
    """As of the last forecast, which readers share. Raises what Redis raises."""
    forecast = await forecasts().of(redis, release_id)
    seconds, microseconds = await redis.time()
    now_us = seconds * 1_000_000 + microseconds
    groups: dict[tuple[str, PriorityClass], list[Waiting]] = {}
    for each in forecast.snapshot.waiting:
        groups.setdefault((each.tenant_id, each.priority_class), []).append(each)
    shares = [_share(forecast, group, now_us) for group in groups.values()]
    shares.sort(key=lambda share: -share.oldest_s)
    return QueueView(len(forecast.snapshot.waiting), shares)


def _share(forecast: Forecast, group: Sequence[Waiting], now_us: int) -> Share:
    last = max(group, key=lambda each: forecast.positions.get(each.generation_id, 0))
    oldest_us = min(each.arrived_us for each in group)
    return Share(
        tenant_id=last.tenant_id,
        priority_class=last.priority_class,
        waiting=len(group),
        oldest_s=max(0.0, now_us - oldest_us) / 1e6,
        last_begins=forecast.waits.get(last.generation_id),
    )
