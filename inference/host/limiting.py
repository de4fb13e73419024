"""Tells an engine how many may share a step, where it can take slots away from lower classes.

What is beyond the limit when a class with a tighter objective comes gives way to it at once,
instead of slowing it down until it ends. Of the highest class that runs nobody does: its own are
only kept from becoming more.
"""

from __future__ import annotations

import asyncio
import logging

from inference.engine.protocol import Engine, EngineDead, EngineError
from inference.host.runner import Runner

log = logging.getLogger(__name__)

# How old a limit may become that nobody asked to look at.
EVERY_S = 1.0
# An engine in a long step answers behind it; then at the next look.
ANSWER_S = 5.0


class Limiting:
    def __init__(self, engine: Engine, runner: Runner) -> None:
        self._engine = engine
        self._runner = runner
        self._asked = asyncio.Event()
        self._told: int | None = None

    def look(self) -> None:
        """Something has begun: what runs may be of another class now."""
        self._asked.set()

    async def run(self) -> None:
        """Until cancelled. Raises EngineDead."""
        while True:
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._asked.wait()
            except TimeoutError:
                pass
            self._asked.clear()
            await self._tell()

    async def _tell(self) -> None:
        limit = self._limit() if self._engine.capabilities.yields else None
        if limit == self._told:
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._engine.limit(limit)
            self._told = limit
        except EngineDead:
            raise
        except (EngineError, TimeoutError) as error:
            log.warning("The engine was not told how many may run: %r", error)

    def _limit(self) -> int | None:
        """None where no objective says how many."""
        latency = self._runner.latency
        if not latency.concurrency.objectives:
            return None
        running = [run for run in self._runner.runs() if run.shares_steps]
        highest = min((run.rank for run in running), default=0)
        return max(latency.limit(), sum(run.rank == highest for run in running))
