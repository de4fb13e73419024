"""A network between a client and a server that fails as networks do."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

# Small enough that the server feels at once when the client's side is slow.
BUFFER_BYTES = 4096
TICK_S = 0.05


@dataclass(slots=True)
class Faults:
    """What is wrong with the way from the server to the client, at present; may change any time.

    delay_s: before each piece; bytes_per_s: how fast it lets them through
    single_bytes: every byte is a piece of its own
    swallow: connections stay, and nothing passes in either direction
    reset_after: bytes that a connection carries before it is reset
    """

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    single_bytes: bool = False
    swallow: bool = False
    reset_after: int | None = None


@dataclass(eq=False, slots=True)
class _Link:
    """One connection: the client's end, the server's end, and bytes carried to the client."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    carried: int = 0

    def reset(self) -> None:
        _abort(self.client)
        _abort(self.server)


@dataclass(eq=False, slots=True)
class FaultProxy:
    """url: where clients connect instead of the server's own."""

    url: str = ""
    faults: Faults = field(default_factory=Faults)
    _links: set[_Link] = field(default_factory=set)
    _target: tuple[str, int] = ("", 0)

    def reset_all(self) -> None:
        """Both ends of every connection see a reset."""
        for link in list(self._links):
            link.reset()

    @property
    def carried(self) -> int:
        """Bytes that open connections have carried to their clients."""
        return sum(link.carried for link in self._links)

    async def _connected(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        try:
            from_server, to_server = await _connect(self._target)
        except OSError:
            _abort(to_client)
            return
        to_client.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        link = _Link(to_client, to_server)
        self._links.add(link)
        ways = [
            asyncio.create_task(self._carry_up(from_client, link)),
            asyncio.create_task(self._carry_down(from_server, link)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # the test has ended; asyncio would report it as a fault
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._links.discard(link)
            to_client.close()
            to_server.close()

    async def _carry_up(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while piece := await reader.read(BUFFER_BYTES):
            await self._while_swallowed()
            link.server.write(piece)
            await link.server.drain()

    async def _carry_down(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while piece := await self._piece(reader):
            await self._while_swallowed()
            if self.faults.delay_s:
                await asyncio.sleep(self.faults.delay_s)
            link.client.write(piece)
            await link.client.drain()
            link.carried += len(piece)
            if self.faults.reset_after is not None and link.carried >= self.faults.reset_after:
                link.reset()
                return

    async def _piece(self, reader: asyncio.StreamReader) -> bytes:
        if self.faults.bytes_per_s is not None:
            piece = await reader.read(max(1, int(self.faults.bytes_per_s * TICK_S)))
            await asyncio.sleep(len(piece) / self.faults.bytes_per_s)
            return piece
        limit = self.faults.reset_after or BUFFER_BYTES
        return await reader.read(1 if self.faults.single_bytes else min(limit, BUFFER_BYTES))

    async def _while_swallowed(self) -> None:
        while self.faults.swallow:
            await asyncio.sleep(TICK_S)


@asynccontextmanager
async def between(target_url: str, **faults: object) -> AsyncIterator[FaultProxy]:
    """A proxy before a server, for the length of this context."""
    target = urlsplit(target_url)
    proxy = FaultProxy(faults=Faults(**faults))  # type: ignore[arg-type]
    proxy._target = str(target.hostname), int(target.port or 80)
    server = await asyncio.start_server(
        proxy._connected, "127.0.0.1", 0, limit=BUFFER_BYTES, backlog=1024
    )
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.reset_all()


async def _connect(target: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    plug.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(plug, target)
    except OSError:
        plug.close()
        raise
    return await asyncio.open_connection(sock=plug, limit=BUFFER_BYTES)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, without a word of goodbye."""
    plug = writer.get_extra_info("socket")
    if plug is not None and plug.fileno() >= 0:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
