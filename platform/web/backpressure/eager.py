"""Writes at once what the kernel takes at once.

Twisted keeps output until its reactor comes round to the socket, which costs every message two
changes of what is polled and a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any


class EagerWriting:
    """Stands before one socket transport's `write` and `writeSequence`. What the kernel does not
    take waits for the reactor, as it would have.
    """

    __slots__ = ("_start_polling", "_transport", "_writing")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._writing = False
        self._start_polling: Callable[[], None] = transport.startWriting
        transport.write = partial(self._write, transport.write)
        transport.writeSequence = partial(self._write, transport.writeSequence)
        transport.startWriting = self._start_writing

    def undo(self) -> None:
        """Leave the transport, which this holds and is held by."""
        for name in ("write", "writeSequence", "startWriting"):
            delattr(self._transport, name)

    @property
    def _pending(self) -> bool:
        transport = self._transport
        return bool(transport._tempDataLen or len(transport.dataBuffer) > transport.offset)  # noqa: SLF001

    def _start_writing(self) -> None:
        if not self._writing:
            self._start_polling()

    def _write(self, buffer: Callable[[Any], None], data: bytes | Iterable[bytes]) -> None:
        if self._writing or self._pending:
            buffer(data)  # it is polled already
            return
        self._writing = True
        try:
            buffer(data)
            # What it returns is an error, or None; the reactor finds the same, and ends this.
            failed = self._pending and self._transport.doWrite() is not None
        finally:
            self._writing = False
        if failed or self._pending:
            self._start_polling()
