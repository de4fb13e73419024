"""Child processes that never outlive the tests, however those end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child:
    """A process in a group of its own, its output in a file.

    Ended with its whole group by `end`; killed by the kernel if the tests' process is killed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        orphaned: signal.Signals = signal.SIGKILL,
    ) -> None:
        """user: uid to run as, with its primary group; orphaned: the signal if the tests die."""
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                user=user,
                extra_groups=None if user is None else [],
                start_new_session=True,
                preexec_fn=lambda: _die_with_parent(orphaned),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """To the whole group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, as a crash would be; returns when the process is gone."""
        self.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def end(self, *, with_signal: signal.Signals = signal.SIGTERM, grace_s: float = 10) -> int:
        """Ask it to end, kill it after the grace; its exit status."""
        if self.returncode is None:
            self.send_signal(with_signal)
        try:
            status = self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        self.send_signal(signal.SIGKILL)  # whatever it may have left behind
        return status

    def wait(self, within_s: float = 30) -> int:
        """Its exit status once it has ended by itself."""
        return self._process.wait(within_s)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def check_alive(self) -> None:
        if self.returncode is not None:
            raise AssertionError(f"{self.name} ended ({self.returncode}):\n{self.output()[-4000:]}")


def _die_with_parent(number: signal.Signals) -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, int(number))


def wait_until(
    check: Callable[[], T], *, what: str, within_s: float = 30, poll_s: float = 0.02
) -> T:
    """What `check` answers as soon as it is true. Raises AssertionError after `within_s` seconds,
    which is generous on purpose: it is no measurement.
    """
    deadline = time.monotonic() + within_s
    while True:
        if found := check():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"Not within {within_s:g} s: {what}. Last seen: {found!r}")
        time.sleep(poll_s)
