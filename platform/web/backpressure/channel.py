"""The HTTP side of one connection: reads requests, with limits on their size and slowness."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from twisted.web.http import HTTPChannel

from .connection import Connection, socket_of

# How long a refused client may go on sending before it is cut off: closing at once would reset the
# connection, and many clients then never see the answer.
LINGER_S = 2.0
# Who has just got an answer may send its next request at once, and must not find the connection
# closed by a drain that has begun meanwhile: it is told with that one's answer.
KEPT_S = 1.0


class FlowChannel(HTTPChannel):  # type: ignore[misc]
    """Is its transport's producer for as long as HTTP is spoken: pauses and resumes are passed on
    to the connection's gate, so no request has to register anything.
    """

    connection: Connection
    persistent: bool
    _refused = False
    _received_requests = 0
    _read_ahead_bytes = 0
    # The request being read, by its number, and since when.
    _reading: tuple[int, float] | None = None
    _body_since: float | None = None
    _body_bytes = 0

    def connectionMade(self) -> None:
        self.server = self.factory.server
        self.connection = self.server.opened(socket_of(self.transport), self)
        self._idle_since = self.server.now()
        super().connectionMade()
        if self.server.is_full:
            self.server.counters.refused_connections += 1
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connectionLost(self, reason: Any) -> None:
        self.server.closed(self.connection)
        super().connectionLost(reason)

    # -- Reading

    def dataReceived(self, data: bytes) -> None:
        if not self._refused:
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:
        if line.startswith((b" ", b"\t")):
            # A header folded over two lines (RFC 9112, 5.2): proxies take it in several ways.
            self._respondToBadRequestAndDisconnect()
        elif not self._refused:
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._handlingRequest:
            super().rawDataReceived(data)
            return
        # Twisted reads on without a limit while its own output waits; see _optimisticEagerReadSize.
        self._dataBuffer.append(data)
        self._read_ahead_bytes += len(data)
        if self._read_ahead_bytes > self._optimisticEagerReadSize:
            self._networkProducer.pauseProducing()

    def allHeadersReceived(self) -> None:
        limit = self.server.options.max_body_bytes
        if limit and self.length is not None and self.length > limit:
            self._refuse_body()
            return
        self._body_since, self._body_bytes = self.server.now(), 0
        super().allHeadersReceived()

    def takes_body(self, size_bytes: int) -> bool:
        """Count a piece of a body; False if it is not to be kept, for there was too much."""
        limit = self.server.options.max_body_bytes
        self._body_bytes += size_bytes
        if limit and self._body_bytes > limit and not self._refused:
            self._refuse_body()
        return not self._refused

    def allContentReceived(self) -> None:
        if self._refused:
            return
        self._received_requests += 1
        self._body_since = None
        super().allContentReceived()

    # -- Answering

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        return bool(super().checkPersistence(request, version)) and not self.last_of(request)

    def last_of(self, request: Any) -> bool:
        """Whether the connection ends with this request's answer, as it is told then."""
        if not self.server.draining or any(self._dataBuffer):
            return False
        request.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return True

    def requestDone(self, request: Any) -> None:
        if self.server.draining and self.persistent and not any(self._dataBuffer):
            # Too late to say in its headers that this answer was the last.
            self.connection.end_with_output()
            self.persistent = False
        self._read_ahead_bytes = 0
        self._idle_since = self.server.now()
        super().requestDone(request)

    def pauseProducing(self) -> None:
        self.connection.gate.pauseProducing()
        super().pauseProducing()

    def resumeProducing(self) -> None:
        self.connection.gate.resumeProducing()
        super().resumeProducing()

    def stopProducing(self) -> None:
        self.connection.gate.stopProducing()
        super().stopProducing()

    # -- Refusing

    def refuse(self, status: HTTPStatus) -> None:
        """Answer at once, whatever was or wasn't read, and end the connection."""
        self._refused = True
        self.setTimeout(None)
        body = f"{status.value} {status.phrase}\n"
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: text/plain",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            head.append("Retry-After: 1")
        self.transport.write("\r\n".join([*head, "", body]).encode())
        if not self.isSecure():
            self.transport.loseWriteConnection()
        self._networkProducer.resumeProducing()
        self._abortingCall = self.callLater(LINGER_S, self.forceAbortClient)

    def _refuse_body(self) -> None:
        self.server.counters.refused_bodies += 1
        self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def lineLengthExceeded(self, line: bytes) -> None:
        self.refuse(self._too_large)

    @property
    def _too_large(self) -> HTTPStatus:
        """Of what is being read. Twisted has no public name for whether that is the first line."""
        if self._HTTPChannel__first_line:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def _respondToBadRequestAndDisconnect(self) -> None:
        if self._refused:
            return
        too_large = (
            self._receivedHeaderSize > self.totalHeadersSize
            or self._receivedHeaderCount > self.maxHeaders
        )
        self.refuse(self._too_large if too_large else HTTPStatus.BAD_REQUEST)

    # -- What the server asks

    @property
    def idle(self) -> bool:
        return not self.requests and not self._buffer and not self._refused

    def may_close(self, now: float) -> bool:
        """Whether nothing is lost if a drain ends this connection."""
        return self.idle and now - self._idle_since >= KEPT_S

    def check(self, now: float) -> None:
        """Cut a request that comes in too slowly."""
        timeout_s = self.server.options.header_timeout_s
        if not timeout_s or self._refused or self._handlingRequest or self.idle:
            self._reading = None
            return
        if self._reading is None or self._reading[0] != self._received_requests:
            self._reading = (self._received_requests, now)
        since = self._reading[1]
        if self._body_since is not None:
            earned_s = self._body_bytes / self.server.options.body_bytes_per_s
            since = self._body_since + earned_s
        if now - since >= timeout_s:
            self.server.counters.timed_out_requests += 1
            self.refuse(HTTPStatus.REQUEST_TIMEOUT)

    def end(self) -> None:
        if not self._handlingRequest:
            self.loseConnection()
