"""What each tenant has had of a release lately, beside what it may have: its weight's part of all
who were there. For operators to look at; nothing is decided by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from inference import redis_keys
from inference.models import Release
from inference.services.estimates import forecasts
from kernel.database import database
from kernel.redis import Client
from tenants.models import Tenant
from tenants.priority import CLASSES, PriorityClass

# As in lua/fair_share.lua; the span that has not ended counts too.
SPAN_S, SPANS = 30, 10
WINDOW_S = SPAN_S * SPANS

Who = tuple[PriorityClass, str]


@dataclass(frozen=True, slots=True)
class Share:
    """What one tenant had in one class within the last WINDOW_S.

    service: tokens by their cost; part: of the class's service, 0 to 1
    entitled: its weight's part among the tenants that had anything or wait, 0 to 1. One that asks
    for less has less, and leaves the rest to the others
    waiting: how many of its requests do now
    """

    tenant_id: str
    priority_class: PriorityClass
    service: float
    part: float
    entitled: float
    waiting: int


async def shares(redis: Client) -> list[tuple[str, list[Share]]]:
    """Every release with any, by name; in each the classes from above, the largest part first.
    Raises what Redis raises.
    """
    found = []
    for release_id, name in await database(_releases):
        served = await served_lately(redis, release_id)
        waiting = await _waiting(redis, release_id)
        if there := served.keys() | waiting.keys():
            weights = await database(_weights, {tenant for _, tenant in there})
            found.append((name, compared(served, waiting, weights)))
    return found


async def served_lately(
    redis: Client, release_id: str, *, now_us: int | None = None
) -> dict[Who, float]:
    """Service by class and tenant."""
    seconds = (await redis.time())[0] if now_us is None else now_us // 1_000_000
    pipeline = redis.pipeline(transaction=False)
    for ago in range(SPANS):
        pipeline.hgetall(f"{redis_keys.share(release_id)}:served:{seconds // SPAN_S - ago}")
    found: defaultdict[Who, float] = defaultdict(float)
    for span in await pipeline.execute():
        for name, service in span.items():
            priority_class, _, tenant = name.decode().partition(" ")
            found[cast(PriorityClass, priority_class), tenant] += float(service)
    return dict(found)


async def _waiting(redis: Client, release_id: str) -> dict[Who, int]:
    found: defaultdict[Who, int] = defaultdict(int)
    for each in (await forecasts().of(redis, release_id)).snapshot.waiting:
        found[each.priority_class, each.tenant_id] += 1
    return dict(found)


def compared(
    served: Mapping[Who, float], waiting: Mapping[Who, int], weights: Mapping[str, float]
) -> list[Share]:
    """weights: 1 for a tenant that isn't there any more"""
    found = []
    for priority_class in CLASSES:
        there = sorted({who for who in (*served, *waiting) if who[0] == priority_class})
        total = sum(served.get(who, 0.0) for who in there)
        all_weights = sum(weights.get(tenant, 1.0) for _, tenant in there)
        of_class = [
            Share(
                tenant_id=who[1],
                priority_class=priority_class,
                service=served.get(who, 0.0),
                part=served.get(who, 0.0) / total if total else 0.0,
                entitled=weights.get(who[1], 1.0) / all_weights,
                waiting=waiting.get(who, 0),
            )
            for who in there
        ]
        found += sorted(of_class, key=lambda share: -share.part)
    return found


def _releases() -> list[tuple[str, str]]:
    return list(Release.objects.order_by("name").values_list("id", "name"))


def _weights(tenant_ids: set[str]) -> dict[str, float]:
    return dict(Tenant.objects.filter(pk__in=tenant_ids).values_list("pk", "weight"))
