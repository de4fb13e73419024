"""How long what waits will wait: one forecast a release for all its waiters, as often as it is
worth it, and whether it came true.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from inference import capacity, forecast, metrics, queue, queue_snapshot, redis_keys
from inference.forecast import Wait
from inference.queue_snapshot import Snapshot
from kernel.loops import one_per_loop
from kernel.redis import Client

KEPT_OUTPUTS = 256
TTL_S = 86_400
# How old a forecast may be; one that takes long is made less often, so that it takes a twentieth of
# a core at most.
FRESH_S = 0.5
PAUSE = 20
# Of the places in a queue that is full, how many are to be free again when a client comes back.
FREED = 0.1


async def note_outputs(redis: Client, release_id: str, tokens: Sequence[int]) -> None:
    """Remember how long answers were."""
    if not tokens:
        return
    key = redis_keys.outputs(release_id)
    pipeline = redis.pipeline(transaction=False)
    pipeline.lpush(key, *tokens)
    pipeline.ltrim(key, 0, KEPT_OUTPUTS - 1)
    pipeline.expire(key, TTL_S)
    await pipeline.execute()


@dataclass(frozen=True, slots=True)
class Forecast:
    """snapshot: what it was made from; positions, waits: by generation, waits only where there is
    something to tell them from
    """

    snapshot: Snapshot
    positions: Mapping[str, int]
    waits: Mapping[str, Wait]


@dataclass(slots=True)
class _Made:
    """A release's last forecast in this process; due_at: when another is worth making."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last: Forecast | None = None
    due_at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Came:
    """Whether a wait was longer than the p90 that was told."""

    release_id: str
    priority_class: str
    was_longer: bool


class Forecasts:
    """A process's forecasts."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._came: deque[_Came] = deque(maxlen=1000)
        self._chance = random.Random()  # noqa: S311 - nothing is guessed from it

    async def of(self, redis: Client, release_id: str) -> Forecast:
        """The release's, at most FRESH_S old or as it is worth. Raises what Redis raises."""
        made = self._made.setdefault(release_id, _Made())
        async with made.lock:
            now = asyncio.get_running_loop().time()
            if made.last is None or now >= made.due_at:
                made.last = await self.make(redis, release_id)
                took_s = asyncio.get_running_loop().time() - now
                made.due_at = now + max(FRESH_S, PAUSE * took_s)
            return made.last

    async def make(self, redis: Client, release_id: str, *, now_us: int | None = None) -> Forecast:
        """Another one, corrected by what has come of those before."""
        await self._correct(redis)
        snapshot, may_run = await asyncio.gather(
            queue_snapshot.read(redis, release_id, now_us=now_us), capacity.read(redis, release_id)
        )
        snapshot = dataclasses.replace(snapshot, capacity=may_run)
        return await asyncio.to_thread(self._replayed, snapshot)

    def _replayed(self, snapshot: Snapshot) -> Forecast:
        ahead = forecast.order(snapshot, queue.costs())
        positions = {each.generation_id: place for place, each in enumerate(ahead, start=1)}
        waits = forecast.waits(snapshot, queue.costs(), self._chance)
        return Forecast(snapshot, positions, waits)

    def came(self, release_id: str, model: str, told: Wait, waited_s: float) -> None:
        """What was told has come: note how true it was; the next forecasts are corrected by it."""
        was_longer = waited_s > told.p90_s
        outcome = "missed" if was_longer else "covered"
        metrics.WAIT_ESTIMATES.labels(model, told.priority_class, outcome).inc()
        self._came.append(_Came(release_id, told.priority_class, was_longer))

    async def _correct(self, redis: Client) -> None:
        if not self._came:
            return
        pipeline = redis.pipeline(transaction=False)
        while self._came:
            came = self._came.popleft()
            key = redis_keys.corrections(came.release_id)
            step = forecast.correction(was_longer=came.was_longer)
            pipeline.hincrbyfloat(key, came.priority_class, step)
            pipeline.expire(key, TTL_S)
        await pipeline.execute()


@one_per_loop
def forecasts() -> Forecasts:
    """The running event loop's."""
    return Forecasts()


async def retry_after_s(redis: Client, release_id: str, tenant_id: str) -> int | None:
    """Seconds until a tenth of what is full, the tenant's part or the queue, is likely to be free
    again; None where nothing is known.
    """
    made = await forecasts().of(redis, release_id)
    mine = [each for each in made.snapshot.waiting if each.tenant_id == tenant_id]
    full = mine if len(mine) >= settings.QUEUE_LIMIT_PER_TENANT else made.snapshot.waiting
    ends = sorted(
        made.waits[each.generation_id].p50_s for each in full if each.generation_id in made.waits
    )
    if not ends:
        return None
    return max(1, math.ceil(ends[int(FREED * len(ends))]))
