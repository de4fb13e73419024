"""Times what a host delivers, and says how many may run within the objectives of its release."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from inference.host.concurrency import Concurrency
from inference.host.run import Run
from inference.services import objectives
from kernel.clock import Clock
from tenants.priority import PriorityClass

log = logging.getLogger(__name__)

# How long a changed objective may take to be kept.
LEARN_EVERY_S = 2.0


class Latency:
    def __init__(self, clock: Clock, runs: Callable[[], Iterable[Run]]) -> None:
        """runs: what the host has now"""
        self.concurrency = Concurrency()
        self._clock = clock
        self._runs = runs

    def delivered(self, gap_s: float, *, now: float) -> None:
        """A step added to an answer, `gap_s` after the one before."""
        self.concurrency.delivered(gap_s, now=now)

    def limits(self) -> dict[PriorityClass, int]:
        """By class, how many may run once one of it has joined what runs."""
        now, slots = self._clock.monotonic(), int(settings.ENGINE_MAX_RUNNING)
        return self.concurrency.limits(self._classes(), slots=slots, now=now)

    def limit(self) -> int:
        """How many may run beside each other now."""
        now, slots = self._clock.monotonic(), int(settings.ENGINE_MAX_RUNNING)
        return self.concurrency.limit(self._classes(), slots=slots, now=now)

    def waits(self, priority_class: PriorityClass) -> None:
        """The next one is of that class, and has no room."""
        self.concurrency.waits(priority_class, now=self._clock.monotonic())

    def told(self) -> dict[str, float]:
        """What the replica's record says of it; 0 is for what there is none of."""
        now, running = self._clock.monotonic(), self._classes()
        limit = self.limit()
        return {
            "slots": int(settings.ENGINE_MAX_RUNNING),
            "limit": limit,
            "limit_tokens_per_s": self.concurrency.tokens_per_s(limit) or 0.0,
            "objective_s": self.concurrency.objective_s(running, now=now) or 0.0,
            "itl_p95_s": self.concurrency.p95_s(now=now) or 0.0,
        }

    async def learn_objectives(self, release_id: str) -> None:
        """Without the database, those that are known go on."""
        try:
            self.concurrency.objectives = await objectives.of_release(release_id)
        except (DatabaseError, InterfaceError) as error:
            log.warning("The database is away, objectives stay as they were: %s", error)

    async def keep_learning(self, release_id: str) -> None:
        """Until cancelled: an objective may change while the replica serves."""
        while True:
            await asyncio.sleep(LEARN_EVERY_S)
            await self.learn_objectives(release_id)

    def _classes(self) -> list[PriorityClass]:
        """Of each that shares the engine's steps, or is about to."""
        return [run.request.priority_class for run in self._runs() if run.shares_steps]
