"""Start an answer, end it early, and look after it while it waits."""

from __future__ import annotations

import asyncio

from inference import control, metrics, queue, redis_keys
from inference.messages import Cancel, Finished, Usage
from inference.pipeline.admission import Admission, Admitted
from inference.pipeline.stages import STAGES
from inference.services.settlement import Outcome, settle
from kernel.clock import Clock
from kernel.database import database
from kernel.errors import PlatformError
from kernel.redis import client


async def admit(admission: Admission, clock: Clock) -> Admitted:
    """Run the stages and queue the request. Raises PlatformError with what refuses it; nothing is
    left behind then.
    """
    try:
        for stage in STAGES:
            await stage(admission)
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
    return Admitted(
        tenant_id=admission.principal.tenant_id,
        generation_id=admission.generation_id,
        release_id=admission.target.release_id,
        model=admission.target.name,
        prompt_tokens=len(admission.prompt_token_ids),
        created_at=admission.now,
    )


async def cancel(admitted: Admitted, clock: Clock) -> None:
    """End a generation wherever it is: waiting, it is taken out; running, its replica is told.
    Ended, nothing happens.
    """
    redis = client()
    usage = Usage(prompt_tokens=admitted.prompt_tokens, output_tokens=0)
    final = Finished(seq=0, text="", finish_reason="cancelled", usage=usage)
    withdrawn = await queue.withdraw(
        redis,
        release_id=admitted.release_id,
        tenant_id=admitted.tenant_id,
        generation_id=admitted.generation_id,
        final=final,
    )
    if withdrawn:
        outcome = Outcome(admitted.tenant_id, admitted.generation_id, "", final)
        await database(settle, outcome, now=clock.now())
        return
    holder = await redis.get(redis_keys.lease(admitted.generation_id))
    if holder is not None and not holder.startswith(b"closed:"):
        await control.send(redis, {holder.decode(): [Cancel(admitted.generation_id)]})
