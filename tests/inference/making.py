"""Requests, clocks and logs as the tests of this package make them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from inference import queue, redis_keys, token_log
from inference.engine.protocol import EngineRequest, Sampling
from inference.messages import Detached, Entry, QueuedRequest
from inference.models import Generation, Route
from kernel.ids import new_id
from kernel.redis import Client
from tenants import scope

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
    high_water_tokens: int = 1_000,
    detached: Detached = "hold",
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
        admitted_at=START.timestamp(),
        high_water_tokens=high_water_tokens,
        detached=detached,
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


@dataclass(frozen=True, slots=True)
class Records:
    """Generations in the database, for requests made by `request`. Its verbs are synchronous."""

    route: Route

    def open(
        self,
        asked: QueuedRequest,
        *,
        created_at: datetime = START,
        principal: str = "service_account:sva_a",
        key_id: str = "",
    ) -> None:
        with scope.tenant(asked.tenant_id):
            Generation.objects.create(
                id=asked.generation_id,
                tenant_id=asked.tenant_id,
                principal=principal,
                key_id=key_id,
                route=self.route,
                release_id=asked.release_id,
                prompt_tokens=len(asked.engine_request.prompt_token_ids),
                created_at=created_at,
            )

    def of(self, asked: QueuedRequest) -> Generation:
        with scope.whole_platform():
            found: Generation = Generation.objects.get(id=asked.generation_id)
        return found
