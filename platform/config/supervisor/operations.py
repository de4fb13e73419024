"""What an operator may ask of a running supervisor: restart and drain, one at a time. Whoever asked
may leave: it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from config.supervisor import memory
from config.supervisor.replacement import Refused, Replacement
from config.supervisor.services import Service
from config.supervisor.supervisor import Child, Say, Supervisor
from kernel.clock import Clock

# Those that serve requests, and those of which two at once are of no use.
ROLLING = ("web", "engine")
SINGLE = ("worker", "beat")


class Operations:
    def __init__(
        self,
        supervisor: Supervisor,
        clock: Clock,
        *,
        successor: Callable[[Service], Service],
        before_drain: Callable[[list[Child]], None],
        is_ready: Callable[[Child], Awaitable[bool]],
    ) -> None:
        """successor: the service that takes a place
        before_drain: called with those that leave and are not to be replaced
        is_ready: whether a new process serves
        """
        self._supervisor = supervisor
        self._clock = clock
        self._successor = successor
        self._before_drain = before_drain
        self._is_ready = is_ready
        # For people: what is under way, and why the last one was broken off after it had begun.
        self.going_on = self.failed = ""

    async def restart(self, what: str, *, stop_first: bool, say: Say) -> None:
        """Replace one after the other; the first that can't be ends it. Raises Refused."""
        with self._alone(f"restart of {what}"):
            for name in self._names(what, of=(*ROLLING, *SINGLE)):
                old = self._of(name)
                first = stop_first or old.service.kind in SINGLE
                if not first and not old.is_over:
                    _require_memory(old)
                await self._replace(old, stop_first=first, say=say)

    async def drain(self, what: str, *, say: Say) -> None:
        """Stop all together, in order and for good. Raises Refused."""
        with self._alone(f"drain of {what}"):
            there = [self._of(name) for name in self._names(what, of=ROLLING)]
            leaving = [child for child in there if not child.is_over]
            if not leaving:
                say(f"{what} is stopped already.")
            self._before_drain(leaving)
            await asyncio.gather(*map(self._replacement(say).leave, leaving))

    async def _replace(self, old: Child, *, stop_first: bool, say: Say) -> None:
        try:
            await self._replacement(say).replace(old, stop_first=stop_first)
        except Refused as why:
            self.failed = str(why)
            raise

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if self.going_on:
            raise Refused(f"A {self.going_on} is going on: wait for its end.")
        self.going_on, self.failed = what, ""
        try:
            yield
        finally:
            self.going_on = ""

    def _names(self, what: str, *, of: tuple[str, ...]) -> list[str]:
        """The places that a kind or a name means, in the order of their start."""
        services = [child.service for child in self._supervisor.children]
        kinds = {service.name: service.kind for service in services if service.kind in of}
        found = [name for name, kind in kinds.items() if what in (name, kind)]
        if not kinds:
            raise Refused("Nehir is still starting: try again when it runs.")
        if not found:
            known = ", ".join(dict.fromkeys((*kinds.values(), *kinds)))
            raise Refused(f"There is no {what!r} here. Known: {known}.")
        return found

    def _of(self, name: str) -> Child:
        children = self._supervisor.children
        return next(child for child in reversed(children) if child.service.name == name)

    def _replacement(self, say: Say) -> Replacement:
        return Replacement(
            self._supervisor,
            self._clock,
            successor=self._successor,
            is_ready=self._is_ready,
            say=say,
        )


def _require_memory(engine: Child) -> None:
    """Raises Refused where a second one would not fit beside the first."""
    if engine.service.kind != "engine" or engine.process is None:
        return
    needed, free = memory.resident_bytes(engine.process.pid), memory.available_bytes()
    if free is not None and needed > free:
        raise Refused(
            f"A second {engine.service.name} needs about {memory.gib(needed)} of memory and "
            f"{memory.gib(free)} are available. With --stop-first the running one finishes and "
            "leaves before; requests wait meanwhile."
        )
