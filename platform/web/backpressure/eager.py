"""Writes at once what the kernel takes at once.

Twisted keeps output until its reactor comes round to the socket, which costs every message two
changes of what is polled and a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class EagerWriting:
    """Stands before one socket transport's `write` and `writeSequence`. What the kernel does not
    take waits for the reactor, as it would have.
    """

    __slots__ = ("_asked", "_gathering", "_start_polling", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._gathering = False
        self._asked = False
        self._start_polling: Callable[[], None] = transport.startWriting
        transport.write = partial(self._write, transport.write)
        transport.writeSequence = partial(self._write, transport.writeSequence)
        transport.startWriting = self._start_writing

    def undo(self) -> None:
        """Leave the transport, which this holds and is held by."""
        for name in ("write", "writeSequence", "startWriting"):
            delattr(self._transport, name)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written inside leaves in one piece: a head with its body, an end with its
        connection's.
        """
        if self._gathering or self._pending:
            yield  # it waits for the reactor anyway
            return
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            self._flush()

    def _flush(self) -> None:
        asked, self._asked = self._asked, False
        if not self._transport.connected:
            return
        # What it returns is an error, or None; the reactor finds the same, and ends this.
        failed = self._pending and self._transport.doWrite() is not None
        if failed or self._pending or (asked and self._transport.disconnecting):
            self._start_polling()

    @property
    def _pending(self) -> bool:
        transport = self._transport
        return bool(transport._tempDataLen or len(transport.dataBuffer) > transport.offset)  # noqa: SLF001

    def _start_writing(self) -> None:
        if self._gathering:
            self._asked = True
        else:
            self._start_polling()

    def _write(self, buffer: Callable[[Any], None], data: bytes | Iterable[bytes]) -> None:
        with self.together():
            buffer(data)
