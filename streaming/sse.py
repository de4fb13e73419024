"""Server-sent events: their bytes, and a response that cleans up when its client leaves."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from django.http import StreamingHttpResponse

from kernel.errors import PlatformError
from web.errors import error_body

DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any], *, seq: int | None = None, name: str | None = None) -> bytes:
    """One event; seq becomes its id, where a reader may go on from. Only clients that asked for
    them get events with a name.
    """
    head = b"" if seq is None else b"id: %d\n" % seq
    if name is not None:
        head += b"event: %s\n" % name.encode()
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def comment(text: str) -> bytes:
    """A line that every client ignores and every proxy counts as life. No blank line follows:
    behind an event with an id, OpenAI's own client takes that for another one, without data, and
    fails.
    """
    return b": " + text.encode() + b"\n"


def error_event(error: PlatformError) -> bytes:
    return event(error_body(error))


class EventStream(StreamingHttpResponse):
    """A stream of events. However it ends, its generator has been closed before this returns.

    Django iterates without closing: when the client leaves while `send` waits, the generator's
    `finally` would run at garbage collection.
    """

    def __init__(self, first: bytes, events: AsyncGenerator[bytes, None]) -> None:
        """first: an event already taken from `events`."""
        super().__init__(content_type="text/event-stream; charset=utf-8")
        self._first = first
        self._events = events
        self.streaming_content = events
        # nginx buffers whole streams without the second.
        self.headers["Cache-Control"] = "no-cache, no-transform"
        self.headers["X-Accel-Buffering"] = "no"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(self._events) as events:
            yield self._first
            async for event in events:
                yield event
