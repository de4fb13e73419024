"""Keeps services running: `policy` says when, `process` does it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from itertools import groupby

from config.supervisor.policy import Life, Phase
from config.supervisor.process import Process, Watchdog, describe, last_lines, rotate
from config.supervisor.services import Service
from kernel.clock import Clock

Say = Callable[[str], None]

# From SIGTERM to SIGKILL for a process that doesn't serve yet: it has nothing to finish, and one
# that loads may not even hear the signal.
UNREADY_GRACE_S = 10.0


class Child:
    """A service, its present process if it runs, and its life so far.

    since: when its present phase began, as far as it has begun
    """

    def __init__(self, service: Service, clock: Clock) -> None:
        self.service = service
        self.life = Life(clock)
        self.process: Process | None = None
        self.starts = 0
        self.since: datetime = clock.now()
        self.stopping = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.life.phase is Phase.RUNNING

    @property
    def is_over(self) -> bool:
        """Stopped, and not to be started again."""
        return self.task is not None and self.task.done()


class Supervisor:
    """Starts services, starts them again when they end, stops them in order."""

    def __init__(self, *, clock: Clock, say: Say) -> None:
        self._clock = clock
        self._say = say
        self._dog = Watchdog()
        self._hurry = asyncio.Event()
        # Two of one name while one takes the other's place; the newest is the last.
        self.children: list[Child] = []

    def start(self, service: Service) -> Child:
        """Start it and keep it running until it is stopped, beside whatever runs of that name."""
        rotate(service.log)
        child = Child(service, self._clock)
        self.children.append(child)
        child.task = asyncio.create_task(self._keep_running(child), name=service.name)
        return child

    async def run_once(self, service: Service) -> int:
        """Run a command to its end, its whole group ended if the caller is cancelled. The exit
        status.
        """
        rotate(service.log)
        process = await Process.spawn(service, self._dog)
        try:
            return await process.wait()
        finally:
            process.kill()

    async def retire(self, child: Child) -> None:
        """Stop one for good, with its grace."""
        if not child.life.stop():
            child.stopping.set()
        child.since = self._clock.now()
        await self._stop(child)
        child.since = self._clock.now()

    def forget(self, child: Child) -> None:
        """Another has taken its place."""
        self.children.remove(child)

    async def stop(self) -> None:
        """Stop all, in the services' order, those of a kind together, each with its grace."""
        for child in self.children:
            if not child.life.stop():
                child.stopping.set()
        in_order = sorted(self.children, key=_stop_rank)
        for _, children in groupby(in_order, key=_stop_rank):
            await asyncio.gather(*map(self._stop, children))
        self._dog.close()

    def hurry(self) -> None:
        """Kill at once what is still to be waited for."""
        self._hurry.set()

    async def _stop(self, child: Child) -> None:
        child.stopping.set()
        if child.task is None or child.task.done():
            return
        grace_s = child.service.grace_s
        if child.process:
            if not child.process.has_told_ready:
                grace_s = min(grace_s, UNREADY_GRACE_S)
            child.process.terminate()
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait(
                {child.task, hurry},
                timeout=grace_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            hurry.cancel()
        if child.process and not child.task.done():
            self._say(f"{child.service.name} did not stop in time and was killed.")
            child.process.kill()
        await child.task

    async def _keep_running(self, child: Child) -> None:
        while not child.stopping.is_set():
            status = await self._run(child)
            child.since = self._clock.now()
            delay_s = child.life.exited()
            if delay_s is None:
                return
            self._report(child.service, status, delay_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await child.stopping.wait()

    async def _run(self, child: Child) -> int:
        """One run from start to end. The exit status; 127 if the program can't be started."""
        child.life.started()
        child.starts += 1
        child.since = self._clock.now()
        try:
            child.process = await Process.spawn(child.service, self._dog)
        except OSError as fault:
            with child.service.log.open("a") as log:
                log.write(f"{fault}\n")
            return 127
        if child.stopping.is_set():
            child.process.terminate()
        status = await child.process.wait()
        child.process = None
        return status

    def _report(self, service: Service, status: int, delay_s: float) -> None:
        tail = "".join(f"\n    {line}" for line in last_lines(service.log))
        self._say(
            f"{service.name} ended with {describe(status)}; again in {delay_s:.0f} s. "
            f"Its log, {service.log}:{tail}"
        )


def _stop_rank(child: Child) -> int:
    return child.service.stop_rank
