"""WebSockets whose `send` waits for the reader, and whose reader waits for the application."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from autobahn.util import encode_truncate
from autobahn.websocket.types import ConnectionDeny
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

from .connection import Connection, socket_of
from .gate import ClientGone
from .inbox import Inbox, Message

NORMAL, INTERNAL_ERROR, SERVICE_RESTART = 1000, 1011, 1012
# What a server may say (RFC 6455, 7.4, and IANA's registry): 1004 to 1006 and 1015 never travel.
CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})
REASON_BYTES = 123
CONTINUATION, TEXT, BINARY = 0x0, 0x1, 0x2
FINAL = 0x80


def frame(opcode: int, payload: bytes, *, final: bool) -> bytes:
    """One frame from a server: unmasked, uncompressed."""
    first = opcode | (FINAL if final else 0)
    size = len(payload)
    if size < 126:
        head = bytes((first, size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, 126, size)
    else:
        head = struct.pack("!BBQ", first, 127, size)
    return head + payload


def fragments(content: str | bytes, size_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Pieces of a message, each with whether it is the last. A large one goes in fragments: control
    frames may pass between them, and no copy of all of it is made.
    """
    if isinstance(content, str):
        step = size_bytes if content.isascii() else size_bytes // 4
        whole: str | memoryview = content
    else:
        step = size_bytes
        whole = memoryview(content)
    for start in range(0, max(len(whole), 1), step):
        piece = whole[start : start + step]
        payload = piece.encode() if isinstance(piece, str) else bytes(piece)
        yield payload, start + step >= len(whole)


class FlowWebSocket(WebSocketProtocol):  # type: ignore[misc]
    """One WebSocket, from the upgrade on."""

    connection: Connection
    application_queue: Inbox
    server: Any = None
    _interrupted = False

    def connectionMade(self) -> None:
        self.connection = self.factory.server_class.upgraded(socket_of(self.transport), self)
        # The HTTP channel still holds the transport's one slot.
        self.transport.unregisterProducer()
        self.transport.registerProducer(self.connection.gate, True)
        super().connectionMade()

    def connectionLost(self, reason: Any) -> None:
        self.factory.server_class.closed(self.connection)
        super().connectionLost(reason)

    def dropConnection(self, abort: bool = False) -> None:
        # No more is sent, and autobahn takes the gate from the transport.
        self.connection.gate.stopProducing()
        # After a complete close handshake a reset would look like a failure to browsers.
        super().dropConnection(abort=abort and not self.wasClean)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        if self.server is not None:  # else the handshake failed before there was an application
            super().onClose(wasClean, code, reason)

    # -- Receiving

    def make_inbox(self) -> Inbox:
        return Inbox(self.server.options, self._read_on)

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if self._choked:
            self.transport.pauseProducing()

    def processData(self) -> bool:
        """Called by autobahn for one frame after the other."""
        return not self._choked and bool(super().processData())

    @property
    def _choked(self) -> bool:
        inbox = getattr(self, "application_queue", None)
        return inbox is not None and inbox.full

    def _read_on(self) -> None:
        if self.state not in (self.STATE_OPEN, self.STATE_CLOSING):
            return
        self.consumeData()
        if not self._choked:
            self.transport.resumeProducing()

    def onAutoPingTimeout(self) -> None:
        if self._choked or self.connection.pending_bytes:
            # It's we who don't read the answer, or the ping still waits behind other output: then
            # it is the sweep that sees whether anything moves.
            self.autoPingTimeoutCall = None
        else:
            super().onAutoPingTimeout()

    # -- Sending

    async def reply(self, message: Message) -> None:
        """Send one of the application's messages; return when the reader has room for more.

        Raises ClientGone; ValueError for what can't be sent.
        """
        if self.state == self.STATE_CLOSED:
            raise ClientGone
        if message.get("type") != "websocket.send":
            self.handle_reply(message)
            return
        text, data = message.get("text"), message.get("bytes")
        if (text is None) == (data is None):
            raise ValueError("a WebSocket message has either bytes or text")
        if self.state == self.STATE_CONNECTING:
            raise ValueError("the WebSocket has not been accepted")
        async with self.connection.gate.lock:
            await self._send(TEXT if data is None else BINARY, text if data is None else data)
        await self.connection.gate.opened()

    async def _send(self, opcode: int, content: Any) -> None:
        gate = self.connection.gate
        if self._interrupted:
            self.connection.abort()
            raise ClientGone
        done = False
        try:
            for payload, last in fragments(content, self.server.options.high_water_bytes):
                await gate.opened()
                if self.state != self.STATE_OPEN:
                    raise ClientGone
                self.transport.write(frame(opcode, payload, final=last))
                opcode, done = CONTINUATION, last
                await gate.passed(len(payload))
        finally:
            # Cancelled half way: another message can't begin, a close frame still can be sent.
            self._interrupted = opcode == CONTINUATION and not done

    def handle_reply(self, message: Message) -> None:
        if message.get("type") != "websocket.close" or self.state == self.STATE_CONNECTING:
            super().handle_reply(message)
        else:
            code = message.get("code")
            self.serverClose(NORMAL if code is None else code, message.get("reason") or "")

    def serverClose(self, code: int = NORMAL, reason: str = "") -> None:
        """Start the close handshake, past what still waits to be sent by other tasks.

        Raises ValueError for a code that may not be sent.
        """
        if code not in CLOSE_CODES:
            raise ValueError(f"{code} is not a close code")
        # autobahn's sendClose refuses 1012 and its like.
        self.sendCloseFrame(code=code, reasonUtf8=encode_truncate(reason, REASON_BYTES))

    # -- Ending

    def application_ended(self, error: BaseException | None) -> None:
        """error: None if it returned, CancelledError if it was cancelled."""
        if self.state == self.STATE_CONNECTING:
            if hasattr(self, "handshake_deferred"):
                deferred = self.handshake_deferred
                del self.handshake_deferred
                deferred.errback(ConnectionDeny(code=500, reason="Internal server error"))
        elif self.state == self.STATE_OPEN:
            self.serverClose(INTERNAL_ERROR if error else NORMAL)

    def check(self, now: float) -> None:
        """Nothing to see to: handshake and pings have their own timers."""

    def end(self) -> None:
        if self.state == self.STATE_OPEN:
            self.serverClose(SERVICE_RESTART, "the server restarts")


class FlowWebSocketFactory(WebSocketFactory):  # type: ignore[misc]
    protocol = FlowWebSocket
