"""How a child says that it serves: it writes a line to a pipe and closes it."""

from __future__ import annotations

import contextlib
import os


class ReadyPipe:
    """The supervisor's end of one child's pipe. `write` is the child's."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self._ready = False
        self._open = {self._read, self.write}

    def hand_over(self) -> None:
        """The child has its end: without ours, the pipe ends with the child."""
        self._close(self.write)

    @property
    def is_ready(self) -> bool:
        if not self._ready and self._read in self._open:
            with contextlib.suppress(BlockingIOError):
                self._ready = os.read(self._read, 1) != b""
        return self._ready

    def close(self) -> None:
        for descriptor in (self._read, self.write):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)
