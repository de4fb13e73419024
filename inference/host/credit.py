"""Holds runs that are as far ahead of their readers as they may be, and lets them go on."""

from __future__ import annotations

from inference.engine.protocol import Engine
from inference.host.run import Run
from inference.host.tally import Tally
from kernel.clock import Clock


class Credit:
    def __init__(self, engine: Engine, clock: Clock, tally: Tally) -> None:
        self._engine = engine
        self._clock = clock
        self._tally = tally

    async def hold(self, run: Run) -> None:
        """An engine that can't hold one request is left unread until there is credit again."""
        self._hold(run)
        self._tally.held()
        if self._engine.capabilities.hold:
            await self._engine.hold(run.id)
            return
        await _wait_outside(run)

    async def before_the_engine(self, run: Run) -> None:
        """One that comes back to a reader without room has nothing to do in the engine yet."""
        if run.flow.must_hold(run.tail.seq):
            self._hold(run)
            await _wait_outside(run)

    def _hold(self, run: Run) -> None:
        run.flow.held, run.held_at, run.token_at = True, self._clock.monotonic(), None

    async def go_on_if_it_may(self, run: Run) -> None:
        if not run.flow.may_go_on(run.tail.seq):
            return
        run.flow.held = False
        run.go_on.set()
        if self._engine.capabilities.hold:
            await self._engine.release(run.id)


async def _wait_outside(run: Run) -> None:
    run.go_on.clear()
    if not (run.cancelled or run.suspending):
        await run.go_on.wait()
