"""Requests, clocks and logs as the tests of this package make them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from inference import queue, redis_keys, token_log
from inference.engine.protocol import EngineRequest, Sampling
from inference.messages import Entry, QueuedRequest
from kernel.ids import new_id
from kernel.redis import Client

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass(slots=True)
class StoppedClock:
    """Goes on only when told to."""

    moment: datetime = field(default=START)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return (self.moment - START).total_seconds()

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def request(
    tenant_id: str = "ten_a",
    *,
    release_id: str = "rel_a",
    max_tokens: int = 8,
    prompt: tuple[int, ...] = (1, 2, 3),
    generation_id: str | None = None,
) -> QueuedRequest:
    return QueuedRequest(
        tenant_id=tenant_id,
        release_id=release_id,
        engine_request=EngineRequest(
            generation_id=generation_id or new_id("gen"),
            prompt_token_ids=list(prompt),
            sampling=Sampling(max_tokens=max_tokens),
            cache_salt=tenant_id,
        ),
    )


async def leased(
    redis: Client, incarnation: str, asked: QueuedRequest | None = None
) -> QueuedRequest:
    """A request that this incarnation has taken from the queue."""
    asked = asked or request()
    await queue.enqueue(redis, asked)
    taken = await queue.claim(redis, asked.release_id, incarnation)
    assert taken == asked
    return asked


async def entries(redis: Client, asked: QueuedRequest) -> list[Entry]:
    """Everything in the request's log."""
    key = redis_keys.log(asked.tenant_id, asked.generation_id)
    return [logged.entry for logged in await token_log.read(redis, key)]
