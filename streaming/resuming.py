"""Where a reader that comes back may go on, and what is known of an answer that isn't kept."""

from __future__ import annotations

from dataclasses import dataclass

from inference import redis_keys, token_log
from inference.messages import Failed, Finished
from inference.models import Generation, State
from inference.pipeline.admission import Admitted
from inference.services import checkpoints, generations
from inference.token_log import Position
from kernel.clock import SystemClock
from kernel.database import database
from kernel.errors import BadRequest, NotFound
from kernel.redis import client
from tenants.principal import Principal


@dataclass(frozen=True, slots=True)
class Resumption:
    """A generation found again and the position behind which its reader goes on."""

    admitted: Admitted
    after: Position


async def resume(principal: Principal, generation_id: str, after_seq: int) -> Resumption:
    """Raises NotFound for a generation that isn't the principal's or whose log is gone, BadRequest
    for a position that the answer never had.
    """
    admitted = await generations.find(principal, generation_id)
    key = redis_keys.log(admitted.tenant_id, generation_id)
    redis = client()
    last = await token_log.last(redis, key)
    if last is None:
        # Suspended, it can't go on without its log: what it has becomes the answer.
        await checkpoints.give_up(redis, SystemClock(), admitted.tenant_id, generation_id)
        raise _expired(await database(generations.record_of, principal, generation_id))
    if not 0 <= after_seq <= last.position[0]:
        raise _no_position(after_seq)
    if after_seq and not await token_log.is_boundary(redis, key, after_seq):
        raise _no_position(after_seq)
    return Resumption(admitted, (after_seq, 0))


def _no_position(seq: int) -> BadRequest:
    return BadRequest(
        f"{seq} is not a position that this answer was sent up to.", code="invalid_position"
    )


def _expired(generation: Generation) -> NotFound:
    state = State(generation.state).label
    return NotFound(
        f"The text of this answer is no longer kept. It is {str(state).lower()}, with "
        f"{generation.output_tokens} tokens.",
        code="log_expired",
    )


async def state_of(principal: Principal, generation_id: str) -> dict[str, object]:
    """What `GET /v1/generations/{id}` says. Raises NotFound."""
    record = await database(generations.record_of, principal, generation_id)
    last = await token_log.last(client(), redis_keys.log(record.tenant_id, generation_id))
    position = last.position[0] if last else record.output_tokens
    ended = last is not None and isinstance(last.entry, Finished | Failed)
    return {
        "id": record.id,
        "object": "generation",
        "created": int(record.created_at.timestamp()),
        "model": record.route.name,
        "state": record.state,
        "position": position,
        "finish_reason": record.finish_reason or None,
        "error": record.error_code or None,
        "resumable": last is not None and not ended,
        "restored": last.entry.restored if last and isinstance(last.entry, Finished) else None,
        "usage": {
            "prompt_tokens": record.prompt_tokens,
            "completion_tokens": position,
            "total_tokens": record.prompt_tokens + position,
        },
    }
