"""Start an answer, find one again, end it early."""

from __future__ import annotations

import asyncio
from typing import cast

from django.conf import settings

from inference import control, leases, metrics, queue, redis_keys, registry
from inference.messages import Cancel, Detached, Finished, QueuedRequest
from inference.models import Generation
from inference.pipeline.admission import Admission, Admitted
from inference.pipeline.stages import STAGES
from inference.services import checkpoints, takeover
from inference.services.replays import Replayed
from inference.services.settlement import Outcome, settle
from kernel.clock import Clock
from kernel.database import database
from kernel.errors import NotFound, PlatformError
from kernel.ids import is_id
from kernel.redis import Client, client
from tenants import scope
from tenants.principal import Principal

# Between two states lie milliseconds, or the writing of a checkpoint.
CANCEL_TRIES = 10
CANCEL_PAUSE_S = 0.1


async def admit(admission: Admission, clock: Clock) -> Admitted:
    """Run the stages and queue the request; or find the generation that answers it already.

    Raises PlatformError with what refuses it; nothing is left behind then.
    """
    try:
        for stage in STAGES:
            await stage(admission)
    except Replayed as replayed:
        metrics.REPLAYED.labels(admission.model).inc()
        return await find(admission.principal, replayed.generation_id)
    except PlatformError as error:
        metrics.REFUSED.labels(error.code).inc()
        raise
    except asyncio.CancelledError:
        # The client left while it was being admitted; it may be in the queue already.
        if admission.request is not None:
            await asyncio.shield(cancel(_admitted(admission), clock))
        raise
    metrics.ADMITTED.labels(admission.model).inc()
    return _admitted(admission)


def _admitted(admission: Admission) -> Admitted:
    assert admission.target is not None  # noqa: S101 - set by the stages
    assert admission.request is not None  # noqa: S101 - set by the stages
    return Admitted(
        tenant_id=admission.principal.tenant_id,
        generation_id=admission.generation_id,
        release_id=admission.target.release_id,
        model=admission.target.name,
        prompt_tokens=len(admission.prompt_token_ids),
        created_at=admission.now,
        high_water_tokens=admission.request.high_water_tokens,
        detached=admission.request.detached,
        new=True,
        key_id=admission.principal.key_id,
    )


async def find(principal: Principal, generation_id: str) -> Admitted:
    """A generation of the principal's own. Raises NotFound for everybody else's."""
    generation = await database(record_of, principal, generation_id)
    return Admitted(
        tenant_id=generation.tenant_id,
        generation_id=generation.id,
        release_id=generation.release_id,
        model=generation.route.name,
        prompt_tokens=generation.prompt_tokens,
        created_at=generation.created_at,
        high_water_tokens=min(
            principal.high_water_tokens or settings.HIGH_WATER_TOKENS, settings.HIGH_WATER_TOKENS
        ),
        detached=cast(Detached, generation.route.detached),
        key_id=generation.key_id or None,
    )


def record_of(principal: Principal, generation_id: str) -> Generation:
    """Raises NotFound for a generation that is not the principal's own."""
    if not is_id(generation_id):
        raise _no_such()
    with scope.tenant(principal.tenant_id):
        own = Generation.objects.select_related("route")
        found: Generation | None = own.filter(id=generation_id, principal=principal.name).first()
    if found is None:
        raise _no_such()
    return found


def _no_such() -> NotFound:
    return NotFound("There is no such generation.", code="generation_not_found")


async def cancel(admitted: Admitted, clock: Clock) -> None:
    """End a generation wherever it is."""
    await end(client(), clock, admitted.tenant_id, admitted.generation_id)


async def end(redis: Client, clock: Clock, tenant_id: str, generation_id: str) -> None:
    """End a generation wherever it is: waiting, it is taken out; running, its replica is told;
    suspended, it is given up. Ended, nothing happens.
    """
    for _ in range(CANCEL_TRIES):
        if await _end_here_and_now(redis, clock, tenant_id, generation_id):
            return
        # It was on its way from one of these states to another.
        await asyncio.sleep(CANCEL_PAUSE_S)


async def _end_here_and_now(
    redis: Client, clock: Clock, tenant_id: str, generation_id: str
) -> bool:
    waiting = await queue.waiting(redis, generation_id)
    if waiting is not None:
        return await _withdraw(redis, clock, waiting)
    lease = await redis.get(redis_keys.lease(generation_id))
    if lease is not None and lease.decode().startswith(leases.CLOSED):
        return True
    if replica := leases.runs_at(lease):
        return await _tell(redis, clock, replica, generation_id)
    if await checkpoints.give_up(redis, clock, tenant_id, generation_id):
        return True
    log = redis_keys.log(tenant_id, generation_id)
    return lease is None and not await redis.exists(log)


async def _tell(redis: Client, clock: Clock, replica: str, generation_id: str) -> bool:
    await control.send(redis, {replica: [Cancel(generation_id)]})
    if not await registry.lost(redis, [replica]):
        return True
    # Nobody hears it there; who takes its generations over does.
    await takeover.take_over(redis, clock, {replica})
    return False


async def _withdraw(redis: Client, clock: Clock, request: QueuedRequest) -> bool:
    final = Finished(request.seq, request.pending, "cancelled", request.usage)
    if not await queue.withdraw(redis, request, final):
        return False
    outcome = Outcome(request.tenant_id, request.generation_id, request.text, final)
    await database(settle, outcome, now=clock.now())
    return True
