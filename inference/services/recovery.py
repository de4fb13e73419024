"""Looks after what lost replicas, full queues and lost logs leave behind, so that every generation
goes on or ends, and is settled once.

Anybody may call these at any time, as often as they like: the log's last entry and the generation's
state decide who was first.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from inference import queue, redis_keys, registry
from inference.messages import Failed, QueuedRequest, Usage
from inference.models import Generation, Release, State
from inference.services import takeover
from inference.services.settlement import Outcome, settle
from inference.services.withdrawn import end_withdrawn
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants import scope

log = logging.getLogger(__name__)

# Between the record in the database and the entry in the queue lie milliseconds; a minute is no
# race.
ORPHAN_AGE = timedelta(seconds=60)
ORPHANS_AT_ONCE = 500


async def close_overdue(redis: Client, clock: Clock) -> int:
    """Give up requests that have waited longer than the queue's time limit; how many."""
    given_up = 0
    for release_id in await database(_release_ids):
        for request in await queue.overdue(redis, release_id):
            given_up += await give_up(redis, clock, request)
    return given_up


def _release_ids() -> list[str]:
    return list(Release.objects.values_list("id", flat=True))


async def give_up(redis: Client, clock: Clock, request: QueuedRequest) -> bool:
    final = queue.timed_out(request)
    withdrawn = await queue.withdraw(redis, request, final)
    if withdrawn:
        outcome = Outcome(request.tenant_id, request.generation_id, request.text, final)
        await database(settle, outcome, now=clock.now())
    return withdrawn


async def close_orphans(redis: Client, clock: Clock) -> int:
    """Settle open generations whose log is gone, as after a loss of Redis or a crash at admission;
    how many.
    """
    settled = 0
    for tenant_id, generation_id, prompt_tokens in await database(_open_before, clock):
        if await redis.exists(redis_keys.log(tenant_id, generation_id)):
            continue
        final = Failed(
            seq=0,
            code="log_lost",
            message="The answer's log was lost.",
            retryable=True,
            usage=Usage(prompt_tokens=prompt_tokens, output_tokens=0),
        )
        outcome = Outcome(tenant_id, generation_id, "", final)
        settled += await database(settle, outcome, now=clock.now())
    return settled


def _open_before(clock: Clock) -> list[tuple[str, str, int]]:
    with scope.whole_platform():
        found = Generation.objects.filter(
            state=State.OPEN, created_at__lt=clock.now() - ORPHAN_AGE
        ).order_by("created_at")
        return list(found.values_list("tenant_id", "id", "prompt_tokens")[:ORPHANS_AT_ONCE])


async def sweep(redis: Client, clock: Clock) -> dict[str, int]:
    """All of that; how many generations each dealt with."""
    return {
        "lost": await takeover.take_over(redis, clock, await registry.lost(redis)),
        "overdue": await close_overdue(redis, clock),
        "orphans": await close_orphans(redis, clock),
        "withdrawn": await end_withdrawn(redis, clock),
    }
