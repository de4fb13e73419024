"""Leaving without breaking anything: what a server does from the first signal to its exit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .server import FlowServer

# Requests already on their way to an idle connection when the drain begins are still served; later
# ones where a connection has just become idle. How often that is looked at.
SETTLE_S = 0.1


class DrainSignal(asyncio.Event):
    """Tells applications that the server leaves: `scope["extensions"]["drain"]["event"]`.

    `is_set()` and `await wait()` as any event. deadline: time of the loop's clock from which
    applications are cancelled; None before the drain.
    """

    deadline: float | None = None

    @property
    def remaining_s(self) -> float | None:
        """Time left to end well; None before the drain."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


class Drain:
    """One server's drain."""

    def __init__(self, server: FlowServer) -> None:
        self._server = server
        self._empty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.signal = DrainSignal()

    @property
    def begun(self) -> bool:
        return self.signal.is_set()

    @property
    def extension(self) -> dict[str, object]:
        """For scopes. grace_s: from the event until applications are cancelled."""
        return {"event": self.signal, "grace_s": self._server.options.drain_grace_s}

    def begin(self) -> None:
        self._server.stop_listening()
        loop = asyncio.get_running_loop()
        self.signal.deadline = loop.time() + self._server.options.drain_grace_s
        self.signal.set()
        self._task = loop.create_task(self._run())

    def note_departure(self) -> None:
        """Called when a connection or an application is gone."""
        if self.begun and self._server.is_empty:
            self._empty.set()

    async def _run(self) -> None:
        options = self._server.options
        closing = asyncio.get_running_loop().create_task(self._close_idle())
        try:
            if not await self._emptied(options.drain_grace_s):
                self._server.end_all()
                if not await self._emptied(options.cancel_grace_s):
                    self._server.leave_behind()
        finally:
            closing.cancel()
            self._server.stop()

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_S)
            self._server.close_idle()

    async def _emptied(self, timeout_s: float) -> bool:
        self.note_departure()
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True
