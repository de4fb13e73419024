"""Puts one new process in the place of an old one: `rolling` decides, this does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from config.supervisor.process import last_lines
from config.supervisor.rolling import Move, New, Turn
from config.supervisor.services import Service
from config.supervisor.supervisor import Child, Say, Supervisor
from kernel.clock import Clock

POLL_S = 0.2


class Refused(Exception):
    """Why it isn't done, or was broken off: for the person who asked."""


class Replacement:
    def __init__(
        self,
        supervisor: Supervisor,
        clock: Clock,
        *,
        successor: Callable[[Service], Service],
        is_ready: Callable[[Child], Awaitable[bool]],
        say: Say,
    ) -> None:
        """successor: the service that takes a place; is_ready: whether a new process serves"""
        self._supervisor = supervisor
        self._clock = clock
        self._successor = successor
        self._is_ready = is_ready
        self._say = say

    async def replace(self, old: Child, *, stop_first: bool) -> None:
        """Return when the new one serves and the old one is gone. Raises Refused."""
        within_s = old.service.ready_within_s
        turn = Turn(self._clock, ready_within_s=within_s, stop_first=stop_first)
        began, new, leaving = self._clock.monotonic(), None, None
        while True:
            seen = await self._seen(new)
            move = turn.next(old_is_there=not old.is_over, new=seen)
            if move is Move.START:
                self._say(f"{old.service.name}: a new process is started …")
                new = self._supervisor.start(self._successor(old.service))
            elif move is Move.DRAIN:
                if new:
                    self._say(f"The new one is ready after {self._since(began)}.")
                leaving = asyncio.create_task(self.leave(old))
            elif move is not Move.WAIT:
                break
            await asyncio.sleep(POLL_S)
        assert new is not None  # noqa: S101 - every other move comes after its start
        await self._conclude(move, old, new, leaving)

    async def leave(self, child: Child) -> None:
        """Stop one for good, with its grace."""
        process = f" (process {child.process.pid})" if child.process else ""
        self._say(f"{child.service.name}{process} is told to finish and leave …")
        began = self._clock.monotonic()
        await self._supervisor.retire(child)
        self._say(f"{child.service.name}{process} has left after {self._since(began)}.")

    async def _seen(self, new: Child | None) -> New:
        if new is None:
            return New.ABSENT
        if new.starts > 1 or (new.starts == 1 and not new.is_running):
            return New.GONE
        return New.READY if await self._is_ready(new) else New.STARTING

    async def _conclude(
        self, move: Move, old: Child, new: Child, leaving: asyncio.Task[None] | None
    ) -> None:
        if leaving:
            await leaving
        if move is Move.DONE:
            self._supervisor.forget(old)
            self._say(f"{new.service.name}: done.")
            return
        sentence = f"The new {new.service.name} did not get ready."
        tail = "".join(f"\n    {line}" for line in last_lines(new.service.log))
        tail = f"Its log, {new.service.log}:{tail}"
        if move is Move.DISCARD:
            await self._supervisor.retire(new)
            self._supervisor.forget(new)
            raise Refused(f"{sentence} The old one goes on. {tail}")
        self._supervisor.forget(old)
        raise Refused(f"{sentence} It is tried again and again. {tail}")

    def _since(self, began: float) -> str:
        return f"{self._clock.monotonic() - began:.1f} s"
