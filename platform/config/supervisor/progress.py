"""Progress of a start: one line a step with its time, live on a terminal and plain in a file."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

REDRAW_S = 0.5
ERASE = "\r\x1b[2K"


class Step:
    """A step under way. `note` changes what its live line says beside the time; plain output leaves notes out."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self.started = time.monotonic()

    def note(self, detail: str) -> None:
        self.detail = detail

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Steps:
    """Writes steps and single lines to a stream."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._lock = threading.Lock()

    def say(self, line: str = "") -> None:
        """One line, or several."""
        with self._lock:
            self._out.write(f"{ERASE if self._live else ''}{line}\n")
            self._out.flush()

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step for as long as the block runs; ends as `title … 1.2 s`, or `title … failed after 1.2 s`."""
        step = Step(title)
        if not self._live:
            self._out.write(f"  {title} … ")
            self._out.flush()
        done = threading.Event()
        painter = threading.Thread(target=self._paint, args=(step, done), daemon=True)
        painter.start()
        try:
            yield step
        except BaseException:
            self._end(step, done, painter, f"failed after {step.seconds:.1f} s")
            raise
        self._end(step, done, painter, f"{step.seconds:.1f} s")

    def _end(
        self, step: Step, done: threading.Event, painter: threading.Thread, outcome: str
    ) -> None:
        done.set()
        painter.join()
        with self._lock:
            start = f"{ERASE}  {step.title} … " if self._live else ""
            self._out.write(f"{start}{outcome}\n")
            self._out.flush()

    def _paint(self, step: Step, done: threading.Event) -> None:
        while self._live and not done.wait(REDRAW_S):
            detail = f" ({step.detail})" if step.detail else ""
            line = f"  {step.title} … {step.seconds:.0f} s{detail}"
            with self._lock:
                self._out.write(ERASE + line[: shutil.get_terminal_size().columns - 1])
                self._out.flush()
