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
    """A step under way. `note` changes what its live line says beside the time; plain output leaves
    notes out.
    """

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
        self._line_is_open = False

    def say(self, line: str = "") -> None:
        """One line, or several."""
        with self._lock:
            self._write(f"{ERASE if self._live else self._close_line()}{line}\n")

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step for as long as the block runs; ends as `title … 1.2 s`."""
        step = Step(title)
        done = threading.Event()
        painter = threading.Thread(target=self._paint, args=(step, done), daemon=True)
        painter.start()
        outcome = "stopped after "
        try:
            yield step
            outcome = ""
        except Exception:
            outcome = "failed after "
            raise
        finally:
            done.set()
            painter.join()
            self._end(step, f"{outcome}{step.seconds:.1f} s")

    def _paint(self, step: Step, done: threading.Event) -> None:
        if not self._live:
            with self._lock:
                self._write(f"  {step.title} … ")
                self._line_is_open = True
            return
        while not done.wait(REDRAW_S):
            detail = f" ({step.detail})" if step.detail else ""
            line = f"  {step.title} … {step.seconds:.0f} s{detail}"
            with self._lock:
                self._write(ERASE + line[: shutil.get_terminal_size().columns - 1])

    def _end(self, step: Step, outcome: str) -> None:
        with self._lock:
            if self._live:
                start = f"{ERASE}  {step.title} … "
            else:
                start = "" if self._line_is_open else f"  {step.title} … "
            self._line_is_open = False
            self._write(f"{start}{outcome}\n")

    def _close_line(self) -> str:
        """A line break if a step's line is open; the step is then named again at its end."""
        was_open, self._line_is_open = self._line_is_open, False
        return "\n" if was_open else ""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
