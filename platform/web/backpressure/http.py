"""Requests whose `send` waits for the reader."""

from __future__ import annotations

from http import HTTPStatus
from io import BytesIO
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from twisted.web.http import NO_BODY_CODES, Request
from twisted.web.http_headers import Headers

from .channel import FlowChannel
from .gate import ClientGone
from .inbox import BodyInbox, Message

# Connections beyond the limit that may be told so at the same time; more are closed unheard.
REFUSALS_AT_ONCE = 64


class FlowRequest(WebRequest):  # type: ignore[misc]
    """One request and its response."""

    content: Any
    _interrupted = False
    _declared_bytes: int | None = None

    def __init__(self, channel: Any, queued: Any = False) -> None:
        # Nobody asks Twisted for form fields, and parsing them holds a body several times.
        super().__init__(channel, queued, parsePOSTFormSubmission=False)
        self._gate = channel.connection.gate

    def handleContentChunk(self, data: bytes) -> None:
        if self.channel.takes_body(len(data)):
            super().handleContentChunk(data)

    def make_inbox(self) -> BodyInbox:
        """What the application receives from: this request's spooled body, then the disconnect."""
        body, self.content = self.content, BytesIO()
        return BodyInbox(self.server.options, body)

    # -- Sending

    async def reply(self, message: Message) -> None:
        """Send one of the application's messages; return when the reader has room for more.

        Raises ClientGone; RuntimeError for what may not follow what was sent.
        """
        kind = message.get("type")
        self._refuse_if_over()
        if kind == "http.response.body":
            await self._send_body(message.get("body", b""), bool(message.get("more_body")))
        else:
            self.handle_reply(message)
            if kind == "http.response.start":
                self._settle_headers()

    def _refuse_if_over(self) -> None:
        if self.finished:
            raise RuntimeError("the response is already complete")
        if self._disconnected:
            raise ClientGone
        if self._interrupted:
            self.truncate()
            raise ClientGone

    def _settle_headers(self) -> None:
        closes = b"close" in b",".join(self._header_values(b"Connection")).lower()
        if self.channel.last_of(self) or closes:
            self.channel.persistent = False
        lengths = self._header_values(b"Content-Length")
        if len(lengths) == 1 and lengths[0].isdigit():
            self._declared_bytes = int(lengths[0])

    def _header_values(self, name: bytes) -> list[bytes]:
        return self.responseHeaders.getRawHeaders(name) or []

    async def _send_body(self, body: bytes, more: bool) -> None:
        if self.method == b"HEAD" or self.code in NO_BODY_CODES:
            body = b""
        async with self._gate.lock:
            self._refuse_if_over()
            self._check_length(len(body), more)
            last = await self._send_all_but_the_last_piece(body)
            await self._gate.opened()
            self._write(last, more)
        if more:
            await self._gate.passed(len(last))
            await self._gate.opened()

    async def _send_all_but_the_last_piece(self, body: bytes) -> bytes:
        """A large body goes piece by piece, or the transport would hold a copy of all of it."""
        size = self.server.options.high_water_bytes
        if len(body) <= size:
            return body
        view = memoryview(body)
        start, end = 0, (len(body) - 1) // size * size
        await self._gate.opened()
        try:
            while start < end:
                self._write(bytes(view[start : start + size]), more=True)
                start += size
                await self._gate.passed(size)
                await self._gate.opened()
        except BaseException:
            # Cancelled half way: what follows would not fit on what was sent.
            self._interrupted = True
            raise
        return bytes(view[end:])

    def _write(self, body: bytes, more: bool) -> None:
        if more and self._response_started:
            Request.write(self, body)  # all that Daphne would do here, at half the cost
            return
        with self.channel.connection.eager.together():
            self.handle_reply({"type": "http.response.body", "body": body, "more_body": more})

    def _check_length(self, size_bytes: int, more: bool) -> None:
        if self._declared_bytes is None or self.method == b"HEAD" or self.code in NO_BODY_CODES:
            return
        total = self.sentLength + size_bytes
        if total > self._declared_bytes or (total < self._declared_bytes and not more):
            if self.startedWriting:
                self.truncate()
            raise RuntimeError(f"Content-Length is {self._declared_bytes}, the body {total} bytes")

    def truncate(self) -> None:
        """End the connection so that the client sees that the response is not complete."""
        self._interrupted = True
        if self.chunked or self._declared_bytes:
            self.channel.loseConnection()
        else:
            self.channel.connection.abort()

    # -- Ending

    def application_ended(self, error: BaseException | None) -> None:
        """error: None if it returned, CancelledError if it was cancelled."""
        if self.finished or self._disconnected:
            return
        if self.startedWriting:
            self.truncate()
            return
        self._response_started, self._declared_bytes = False, None
        self.responseHeaders = Headers()
        self.channel.persistent = not self.channel.last_of(self) and self.channel.persistent
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        if self.server.draining:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        self.basic_error(status.value, status.phrase.encode(), "The application gave no answer.")

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Plain text: Daphne's own is a page, with styles that no policy covers."""
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Cache-Control", b"no-store"),
            (b"X-Content-Type-Options", b"nosniff"),
        ]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        text = f"{status} {status_text.decode()}\n{body}\n"
        self.handle_reply({"type": "http.response.body", "body": text.encode()})

    def check_timeouts(self) -> None:
        """Daphne's would end a response half sent as if it were complete."""
        if self.startedWriting and not self.finished and not self._disconnected:
            limit_s = self.server.http_timeout
            if limit_s and self.duration() > limit_s:
                self.truncate()
        else:
            super().check_timeouts()


class FlowHTTPFactory(HTTPFactory):  # type: ignore[misc]
    """HTTP/1.1 only: what a stream of HTTP/2 waits for is not its connection."""

    def protocol(self) -> FlowChannel:
        return FlowChannel()

    def buildProtocol(self, addr: Any) -> Any:
        if self.server.is_flooded(REFUSALS_AT_ONCE):
            self.server.counters.refused_connections += 1
            return None
        channel = super().buildProtocol(addr)
        channel.requestFactory = FlowRequest
        return channel

    def acceptableProtocols(self) -> list[bytes]:
        return [b"http/1.1"]
