"""Processes: each in a session of its own with a log of its own, ended as a whole group, never
outliving the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from config.supervisor import watchdog
from config.supervisor.readiness import ReadyPipe
from config.supervisor.services import Service, environment

KEPT_LOGS = 3
LAST_LINES = 6
TAIL_BYTES = 8192


class Watchdog:
    """The process that ends all groups if the supervisor dies without doing so (see `watchdog`)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - nothing of a user's in it
            [sys.executable, "-S", "-E", watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def watch(self, group: int) -> None:
        self._tell(f"+{group}")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}")

    def close(self) -> None:
        """Every group must have been forgotten: those that were not are ended."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


class Process:
    """One run of a service's command."""

    def __init__(
        self,
        service: Service,
        process: asyncio.subprocess.Process,
        dog: Watchdog,
        pipe: ReadyPipe | None,
    ) -> None:
        self.service = service
        self.pid = process.pid
        self._process = process
        self._dog = dog
        self._pipe = pipe
        self._is_told = False

    @classmethod
    async def spawn(cls, service: Service, dog: Watchdog) -> Process:
        """Start it, its output appended to its log. Raises OSError if it can't be started."""
        pipe = ReadyPipe() if service.ready_option else None
        try:
            process = await _start(service, pipe)
        except OSError:
            if pipe:
                pipe.close()
            raise
        if pipe:
            pipe.hand_over()
        dog.watch(process.pid)
        return cls(service, process, dog, pipe)

    @property
    def has_told_ready(self) -> bool:
        """Whether it serves; of a service that can't tell, whether it was started."""
        return self._pipe is None or self._pipe.is_ready

    async def wait(self) -> int:
        """The exit status, negative for a signal. What the process left behind in its group is
        killed then.
        """
        status = await self._process.wait()
        self.kill()
        self._dog.forget(self.pid)
        if self._pipe:
            self._pipe.close()
        if self.service.on_exit:
            self.service.on_exit(self.pid)
        return status

    def terminate(self) -> None:
        """Ask the process alone: it knows how to end what it started. Once: a second signal would
        break its drain off.
        """
        if not self._is_told:
            self._is_told = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


async def _start(service: Service, pipe: ReadyPipe | None) -> asyncio.subprocess.Process:
    tell = (service.ready_option, str(pipe.write)) if pipe and service.ready_option else ()
    with service.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *service.command,
            *tell,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment() | service.environment,
            start_new_session=True,
            pass_fds=(*service.descriptors, *((pipe.write,) if pipe else ())),
        )


def rotate(log: Path) -> None:
    """Begin a new log, keeping the last few: name.log.1 is the one before."""
    log.parent.mkdir(parents=True, exist_ok=True)
    for number in range(KEPT_LOGS - 1, -1, -1):
        old = log.with_name(f"{log.name}.{number}") if number else log
        if old.exists():
            old.replace(log.with_name(f"{log.name}.{number + 1}"))


def last_lines(log: Path) -> list[str]:
    """The end of a log, for people."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-LAST_LINES:]


def describe(status: int) -> str:
    """An exit status in words."""
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"code {status}"
