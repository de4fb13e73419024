"""Logs and leases in Redis that would outlive their generation.

What ends a generation lets its log expire. A crash between the two, or a write behind the end, may
leave one that stays for ever: of a generation that is settled, or that nobody knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from django.conf import settings

from inference import redis_keys
from inference.models import Generation
from inference.services.settlement import UNSETTLED
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants import scope

# Keys that Redis looks at in one step, between which it serves everybody else.
SCANNED_AT_ONCE = 500


async def let_expire(redis: Client, clock: Clock, *, dry_run: bool = False) -> int:
    """Give those the time that an ended answer's log has; how many there were."""
    found: set[str] = set()
    for pattern in (redis_keys.log("*", "*"), redis_keys.lease("*")):
        async for keys in _scan(redis, pattern):
            orphans = await _orphans(redis, keys)
            if orphans and not dry_run:
                pipeline = redis.pipeline(transaction=False)
                for key in orphans:
                    pipeline.expire(key, settings.LOG_TTL_S, lt=True)
                await pipeline.execute()
            found.update(orphans)
    return len(found)


async def _scan(redis: Client, pattern: str) -> AsyncIterator[list[str]]:
    cursor = 0
    while True:
        cursor, keys = await redis.scan(cursor, match=pattern, count=SCANNED_AT_ONCE)
        if keys:
            yield [key.decode() for key in keys]
        if cursor == 0:
            return


async def _orphans(redis: Client, keys: list[str]) -> list[str]:
    pipeline = redis.pipeline(transaction=False)
    for key in keys:
        pipeline.ttl(key)
    ttls = await pipeline.execute()
    # -1: it has none; -2: it is gone.
    staying = {
        key: key.rpartition(":")[2]
        for key, ttl in zip(keys, ttls, strict=True)
        if ttl == -1 or ttl > settings.LOG_TTL_S
    }
    if not staying:
        return []
    alive = await database(_unsettled, set(staying.values()))
    return [key for key, generation_id in staying.items() if generation_id not in alive]


def _unsettled(generation_ids: set[str]) -> set[str]:
    with scope.whole_platform():
        found = Generation.objects.filter(id__in=generation_ids, state__in=UNSETTLED)
        return set(found.values_list("id", flat=True))
