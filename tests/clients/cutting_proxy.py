"""A proxy that cuts connections in mid-stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

STREAM = b"text/event-stream"


class CuttingProxy:
    """In front of a web process at `target`.

    cuts: how many streams are still to be cut; each, `after_bytes` behind its beginning
    url: where it listens
    """

    def __init__(self, target: str, *, cuts: int, after_bytes: int) -> None:
        self.cuts = cuts
        self.after_bytes = after_bytes
        self.url = ""
        self._target = urlsplit(target)
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(
            self._target.hostname, self._target.port
        )
        up = asyncio.create_task(self._up(reader, far_writer))
        try:
            await self._down(far_reader, writer)
        finally:
            up.cancel()
            # Reset, as a lost network would: nothing says that more was to come.
            writer.transport.abort()
            far_writer.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streamed = -1
        while data := await reader.read(65_536):
            if streamed < 0 and STREAM in data:
                streamed = 0
            if streamed >= 0 and self.cuts:
                room = self.after_bytes - streamed
                streamed += len(data)
                if streamed > self.after_bytes:
                    self.cuts -= 1
                    writer.write(data[:room])
                    await writer.drain()
                    # Let the other end read what it was sent.
                    await asyncio.sleep(0.05)
                    return
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def cutting(target: str, *, cuts: int, after_bytes: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(target, cuts=cuts, after_bytes=after_bytes)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
