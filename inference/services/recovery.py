"""Closes what lost replicas, full queues and lost logs leave behind, so that every generation ends
and is settled once.

Anybody may call these at any time, as often as they like: the log's last entry and the generation's
state decide who was first.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import msgspec
from django.conf import settings

from inference import messages, queue, redis_keys, registry, scripts, token_log
from inference.messages import Failed, Final, Progress, QueuedRequest, Usage
from inference.models import Generation, Release, State
from inference.services import checkpoints
from inference.services.checkpoints import Suspension
from inference.services.settlement import Outcome, settle
from inference.token_log import Content
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants import scope

log = logging.getLogger(__name__)

# Between the record in the database and the entry in the queue lie milliseconds; a minute is no
# race.
ORPHAN_AGE = timedelta(seconds=60)
ORPHANS_AT_ONCE = 500


async def close_lost(redis: Client, clock: Clock, incarnations: set[str]) -> int:
    """Close and settle what these lost replicas had taken; how many were settled here."""
    closed = 0
    for incarnation in incarnations:
        for request in await registry.unsettled(redis, incarnation):
            closed += await _close_one(redis, clock, incarnation, request)
        await registry.forget(redis, incarnation)
    return closed


async def _close_one(redis: Client, clock: Clock, incarnation: str, request: QueuedRequest) -> bool:
    content = await token_log.content(redis, request.tenant_id, request.generation_id)
    if content is not None and content.final is None and content.suspended is not None:
        # It was lost between suspending this in the log and keeping it.
        await database(checkpoints.keep, _suspension(request, content), now=clock.now())
        await registry.settled(redis, incarnation, request.generation_id)
        return False
    text, final = await _ending(redis, incarnation, request, content)
    if final is None:
        return False
    outcome = Outcome(request.tenant_id, request.generation_id, text, final)
    settled = await database(settle, outcome, now=clock.now())
    await registry.settled(redis, incarnation, request.generation_id)
    return settled


def _suspension(request: QueuedRequest, content: Content) -> Suspension:
    entry = content.suspended
    assert entry is not None  # noqa: S101 - the caller has looked
    progress = Progress(
        token_ids=content.token_ids,
        text=content.text + entry.text,
        cached_tokens=entry.usage.cached_tokens,
        pending=entry.text,
    )
    return Suspension(msgspec.structs.replace(request, progress=progress), entry)


async def _ending(
    redis: Client, incarnation: str, request: QueuedRequest, content: Content | None
) -> tuple[str, Final | None]:
    """The answer as far as it came and its last entry, which is written here if there is none yet;
    no last entry when it isn't this replica's to lose any more.
    """
    if content is None:
        return "", _log_lost(request)
    if content.final is not None:
        return content.text, content.final
    final = _engine_lost(request, content)
    closed = await _close_log(redis, incarnation, request, final)
    return content.text, final if closed else None


def _log_lost(request: QueuedRequest) -> Failed:
    return Failed(
        seq=0,
        code="log_lost",
        message="The answer's log was lost.",
        retryable=True,
        usage=Usage(len(request.engine_request.prompt_token_ids), output_tokens=0),
    )


def _engine_lost(request: QueuedRequest, content: Content) -> Failed:
    prompt = len(request.engine_request.prompt_token_ids)
    return Failed(
        seq=content.seq,
        code="engine_lost",
        message="The engine was lost while it was answering. What had arrived is kept; try again.",
        retryable=True,
        usage=Usage(prompt_tokens=prompt, output_tokens=content.seq),
    )


async def _close_log(
    redis: Client, incarnation: str, request: QueuedRequest, final: Failed
) -> bool:
    closed = await scripts.run(
        redis,
        "close_lost",
        [
            redis_keys.lease(request.generation_id),
            redis_keys.log(request.tenant_id, request.generation_id),
            redis_keys.replica(incarnation),
        ],
        [incarnation, f"{final.seq}-*", messages.encode(final), settings.LOG_TTL_S],
    )
    return bool(closed == 1)


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
    """All of the above; how many generations each closed."""
    return {
        "lost": await close_lost(redis, clock, await registry.lost(redis)),
        "overdue": await close_overdue(redis, clock),
        "orphans": await close_orphans(redis, clock),
    }
