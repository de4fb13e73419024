"""Answers that wait for a reader outside of any engine: keep them, let them go on, give them up.

The log's lease says `suspended` for as long as one is kept; whoever puts the request back into the
queue takes that away in the same step, so an answer goes on once however many readers come back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Sum

from inference import leases, messages, queue, redis_keys, scripts
from inference.messages import Finished, QueuedRequest, Suspended
from inference.models import Checkpoint, Generation, State
from inference.services.settlement import Outcome, settle
from kernel.clock import Clock
from kernel.database import database, writing
from kernel.redis import Client
from tenants import scope

log = logging.getLogger(__name__)

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Suspension:
    """A generation taken out of its engine: the request that goes on from there, and its entry."""

    request: QueuedRequest
    entry: Suspended

    @property
    def tenant_id(self) -> str:
        return self.request.tenant_id

    @property
    def generation_id(self) -> str:
        return self.request.generation_id


async def keep_while_suspended(
    redis: Client, suspension: Suspension, holder: str, *, now: datetime
) -> None:
    """Keep it, if it is in the turn that `holder` has suspended: it may have gone on since."""
    lease = await redis.get(redis_keys.lease(suspension.generation_id))
    if lease == (leases.SUSPENDED + holder).encode():
        await database(keep, suspension, now=now)


def keep(suspension: Suspension, *, now: datetime) -> None:
    """Keep it until it is read again, or for `CHECKPOINT_TTL_S`. Twice is the same as once, and
    late is as good as never.
    """
    raw = messages.encode(suspension.request)
    with scope.tenant(suspension.tenant_id), writing():
        open_ones = Generation.objects.filter(
            id=suspension.generation_id, state__in=(State.OPEN, State.SUSPENDED)
        )
        if _has_later(suspension) or not open_ones.update(state=State.SUSPENDED):
            return
        Checkpoint.objects.update_or_create(
            generation_id=suspension.generation_id,
            defaults={
                "tenant_id": suspension.tenant_id,
                "request": raw,
                "seq": suspension.entry.seq,
                "size_bytes": len(raw),
                "created_at": now,
                "expires_at": now + timedelta(seconds=settings.CHECKPOINT_TTL_S),
            },
        )


def _has_later(suspension: Suspension) -> bool:
    kept = Checkpoint.objects.filter(generation_id=suspension.generation_id).first()
    return kept is not None and (
        messages.decode_request(bytes(kept.request)).turn > suspension.request.turn
    )


async def go_on(redis: Client, tenant_id: str, generation_id: str) -> bool:
    """Put a suspended generation back into its queue. False if none is kept (yet), or it goes on
    already.
    """
    kept = await database(_kept, tenant_id, generation_id)
    if kept is None:
        return False
    request, created_at = kept
    if not await queue.requeue(redis, request, interrupted=False):
        return False
    await database(_forget, tenant_id, generation_id, created_at)
    return True


def _kept(tenant_id: str, generation_id: str) -> tuple[QueuedRequest, datetime] | None:
    """The request, and when it was kept."""
    with scope.tenant(tenant_id):
        found = Checkpoint.objects.filter(generation_id=generation_id).first()
    return (messages.decode_request(bytes(found.request)), found.created_at) if found else None


def _forget(tenant_id: str, generation_id: str, created_at: datetime) -> None:
    """Only the checkpoint that went on: it may have been suspended again meanwhile."""
    with scope.tenant(tenant_id), writing():
        kept = Checkpoint.objects.filter(generation_id=generation_id, created_at=created_at)
        gone, _ = kept.delete()
        if gone:
            Generation.objects.filter(id=generation_id, state=State.SUSPENDED).update(
                state=State.OPEN
            )


async def give_up(redis: Client, clock: Clock, tenant_id: str, generation_id: str) -> bool:
    """End a suspended generation with what it has. False if it isn't suspended (any more)."""
    kept = await database(_kept, tenant_id, generation_id)
    if kept is None:
        return False
    request, _ = kept
    final = Finished(request.seq, request.pending, "cancelled", request.usage)
    closed = await scripts.run(
        redis,
        "end_suspended",
        [redis_keys.lease(generation_id), redis_keys.log(tenant_id, generation_id)],
        [f"{final.seq}-*", messages.encode(final), settings.LOG_TTL_S, request.turn],
    )
    log_is_gone = not await redis.exists(redis_keys.log(tenant_id, generation_id))
    if closed != 1 and not log_is_gone:
        return False
    outcome = Outcome(tenant_id, generation_id, request.text, final)
    return await database(settle, outcome, now=clock.now())


async def clean_up(redis: Client, clock: Clock, *, dry_run: bool = False) -> int:
    """Give up what is past its age, and each tenant's oldest beyond its size; how many."""
    surplus = await database(_surplus, clock.now())
    if dry_run:
        return len(surplus)
    return sum([await give_up(redis, clock, *one) for one in surplus])


def _surplus(now: datetime) -> list[tuple[str, str]]:
    with scope.whole_platform():
        expired = Checkpoint.objects.filter(expires_at__lte=now).order_by("expires_at")
        found = list(expired.values_list("tenant_id", "generation_id")[:AT_ONCE])
        totals = Checkpoint.objects.values("tenant_id").annotate(total=Sum("size_bytes"))
        over = totals.filter(total__gt=settings.CHECKPOINT_BYTES_PER_TENANT)
        for tenant_id, total in over.values_list("tenant_id", "total"):
            found += _oldest(tenant_id, total - settings.CHECKPOINT_BYTES_PER_TENANT)
    return list(dict.fromkeys(found))


def _oldest(tenant_id: str, surplus_bytes: int) -> list[tuple[str, str]]:
    """Enough of a tenant's oldest checkpoints to be rid of the surplus."""
    found = []
    rows = Checkpoint.objects.filter(tenant_id=tenant_id).order_by("created_at")
    for generation_id, size in rows.values_list("generation_id", "size_bytes")[:AT_ONCE]:
        if surplus_bytes <= 0:
            break
        found.append((tenant_id, generation_id))
        surplus_bytes -= size
    return found
