"""Daphne's server with flow control in both directions, limits, and a drain."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable
from dataclasses import asdict
from functools import partial
from typing import Any

from daphne.server import Server
from twisted.internet import defer, reactor
from twisted.internet.endpoints import serverFromString
from twisted.logger import STDLibLogObserver, globalLogBeginner

from . import stats
from .channel import FlowChannel
from .connection import Connection, Holder
from .drain import Drain
from .gate import ClientGone
from .http import FlowHTTPFactory
from .inbox import Inbox, Message
from .options import FlowOptions
from .stats import Counters, FlowStats
from .websocket import FlowWebSocket, FlowWebSocketFactory

logger = logging.getLogger(__name__)

# How often a listening socket is asked for more before it is closed.
LAST_ACCEPTS = 16


class FlowServer(Server):  # type: ignore[misc]
    """Everything of Daphne's server, and FlowOptions.

    Scopes carry `extensions["drain"]`: {"event": DrainSignal, "grace_s": seconds}.
    abandoned: applications that did not end in time when the server stopped
    """

    def __init__(self, *args: Any, options: FlowOptions | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.options = options or FlowOptions()
        self.counters = Counters()
        self.flows: dict[Any, Connection] = {}
        self.connections: dict[Any, dict[str, Any]] = {}
        self.ports: list[Any] = []
        self.drain = Drain(self)
        self.abandoned = 0

    now = staticmethod(time.monotonic)

    # -- Running

    def run(self) -> None:
        """Serve until stopped. Daphne's own, but for our factories, sweep and signals."""
        self._make_factories()
        self._begin_logging()
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        reactor.callLater(self.options.sweep_interval_s, self.sweep)
        for description in self.endpoints:
            logger.info("Configuring endpoint %s", description)
            listening = serverFromString(reactor, str(description)).listen(self.http_factory)
            listening.addCallbacks(self.listen_success, self.listen_error)
            self.listeners.append(listening)
        loop = reactor._asyncioEventloop  # noqa: SLF001
        asyncio.set_event_loop(loop)
        loop.set_debug(self.verbosity >= 3)
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        if self.abort_start:
            return
        if self.signal_handlers:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._on_signal, number)
        stats.publish(self.stats)
        if self.ready_callable:
            self.ready_callable()
        reactor.run(installSignalHandlers=False)

    def _make_factories(self) -> None:
        self.http_factory = FlowHTTPFactory(self)
        self.ws_factory = FlowWebSocketFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            closeHandshakeTimeout=self.options.close_timeout_s,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )

    def _begin_logging(self) -> None:
        if self.verbosity > 1:
            globalLogBeginner.beginLoggingTo([STDLibLogObserver(__name__)])
        else:
            globalLogBeginner.beginLoggingTo(
                [lambda _: None], redirectStandardIO=False, discardBuffer=True
            )

    def listen_success(self, port: Any) -> None:
        self.ports.append(port)
        super().listen_success(port)

    def _on_signal(self, number: int) -> None:
        if self.draining:  # somebody is in a hurry
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            logger.info("Draining for up to %s s", self.options.drain_grace_s)
            self.drain.begin()

    # -- Connections

    def opened(self, transport: Any, holder: Holder) -> Connection:
        connection = Connection(transport, holder, self.options)
        self.flows[transport] = connection
        self.counters.accepted += 1
        return connection

    def upgraded(self, transport: Any, holder: Holder) -> Connection:
        connection = self.flows[transport]
        connection.holder = holder
        return connection

    def closed(self, connection: Connection) -> None:
        del self.flows[connection.transport]
        connection.closed()
        self.drain.note_departure()

    @property
    def is_full(self) -> bool:
        return self.is_flooded(1)

    def is_flooded(self, extra: int) -> bool:
        """Whether there are this many connections more than there may be."""
        limit = self.options.max_connections
        return bool(limit) and len(self.flows) >= limit + extra

    def sweep(self) -> None:
        """Look at every connection: cut who stalls, and who sends a request too slowly."""
        now, timeout_s = self.now(), self.options.stall_timeout_s
        for connection in list(self.flows.values()):
            if timeout_s and connection.stalled(now, timeout_s):
                self.counters.evicted_stalls += 1
                connection.abort()
            else:
                connection.holder.check(now)
        stats.tell(self.stats())
        reactor.callLater(self.options.sweep_interval_s, self.sweep)

    def stats(self) -> FlowStats:
        flows = self.flows.values()
        websockets = sum(isinstance(flow.holder, FlowWebSocket) for flow in flows)
        return FlowStats(
            http_connections=len(flows) - websockets,
            websocket_connections=websockets,
            requests=len(self.connections) - websockets,
            waiting_sends=sum(flow.gate.waiting for flow in flows),
            buffered_bytes=sum(flow.buffered_bytes for flow in flows),
            draining=self.draining,
            **asdict(self.counters),
        )

    # -- Applications

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Inbox:
        """Start the application of a request or WebSocket; return where its messages go."""
        inbox: Inbox = protocol.make_inbox()
        scope.setdefault("asgi", {"version": "3.0"})
        scope.setdefault("extensions", {})["drain"] = self.drain.extension
        running: Awaitable[None] = self.application(
            scope=scope, receive=inbox.get, send=partial(self.handle_reply, protocol)
        )
        task = asyncio.ensure_future(running)
        self.connections[protocol]["application_instance"] = task
        task.add_done_callback(partial(self._application_done, protocol))
        return inbox

    async def handle_reply(self, protocol: Any, message: Message) -> None:
        """ASGI's `send`: returns when the reader has room. Raises ClientGone after it left."""
        try:
            self.check_headers_type(message)
        except ValueError:
            protocol.basic_error(500, b"Server Error", "Server Error")
            raise
        await protocol.reply(message)

    def _application_done(self, protocol: Any, task: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(error, ClientGone):
            logger.debug("Application of %r stopped: %s", protocol, error)
        elif error and not task.cancelled():
            logger.error("Exception inside application: %s", error, exc_info=error)
        self.connections[protocol].pop("application_instance")
        protocol.application_ended(error)
        self._forget_if_over(protocol)

    def protocol_disconnected(self, protocol: Any) -> None:
        if protocol in self.connections:
            super().protocol_disconnected(protocol)
            self._forget_if_over(protocol)

    def _forget_if_over(self, protocol: Any) -> None:
        details = self.connections[protocol]
        if "disconnected" in details and "application_instance" not in details:
            del self.connections[protocol]
            self.drain.note_departure()

    def application_checker(self) -> None:
        """Cancel applications that go on long after their client left."""
        latest = time.time() - self.application_close_timeout
        for protocol, details in list(self.connections.items()):
            task = details.get("application_instance")
            late = details.get("disconnected", latest) < latest
            if task is not None and late and not details.get("cancelled"):
                details["cancelled"] = True
                logger.warning("Application of %r took too long to shut down", protocol)
                task.cancel()
        reactor.callLater(1, self.application_checker)

    @property
    def _running(self) -> list[asyncio.Task[None]]:
        tasks = (details.get("application_instance") for details in self.connections.values())
        return [task for task in tasks if task is not None]

    # -- Leaving

    @property
    def draining(self) -> bool:
        return self.drain.begun

    @property
    def is_empty(self) -> bool:
        return not self.flows and not self.connections

    def stop_listening(self) -> None:
        """Close the listening sockets; who already stands in their queue is let in before."""
        for port in self.ports:
            for _ in range(LAST_ACCEPTS):
                accepted = port.sessionno
                port.doRead()
                if port.sessionno == accepted:
                    break
            port.stopListening()
        self.ports.clear()

    def close_idle(self) -> None:
        now = self.now()
        for connection in list(self.flows.values()):
            if isinstance(connection.holder, FlowChannel) and connection.holder.may_close(now):
                connection.holder.loseConnection()

    def end_all(self) -> None:
        """The grace is over: WebSockets are told to come back, applications are cancelled."""
        for connection in list(self.flows.values()):
            connection.holder.end()
        for task in self._running:
            task.cancel()

    def leave_behind(self) -> None:
        self.abandoned = len(self._running)
        if self.abandoned:
            logger.warning("%d applications did not end when cancelled", self.abandoned)

    def kill_all_applications(self) -> Any:
        """Called before the reactor ends, however it came to that."""
        tasks = [] if self.abandoned else self._running
        if not tasks:
            return None
        for task in tasks:
            task.cancel()
        waiting = asyncio.wait(tasks, timeout=self.options.cancel_grace_s)
        return defer.Deferred.fromFuture(asyncio.ensure_future(waiting))
