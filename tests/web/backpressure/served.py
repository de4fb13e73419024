"""A server in a process of its own, and clients that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
APPLICATION = "tests.web.backpressure.applications:application"
# For conditions that come at once on an idle machine; ours aren't. Below the 60 s after which
# Twisted closes idle connections by itself.
PATIENCE_S = 45.0


def listening_socket() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(100)
    return sock


def start_process(*arguments: str, output: Path, pass_fds: tuple[int, ...] = ()) -> Any:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "platform"), str(ROOT)))}
    command = [sys.executable, "-m", "web.backpressure", "-v", "0", *arguments, APPLICATION]
    with output.open("ab") as stream:
        return subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            cwd=ROOT,
            env=environment,
        )


@dataclass
class Served:
    """A running server. output: what it printed and logged"""

    process: subprocess.Popen[bytes]
    port: int
    output: Path
    tls: ssl.SSLContext | None = None

    def printed(self) -> str:
        return self.output.read_text()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    async def connect(
        self, receive_buffer: int = 0
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = self.socket(receive_buffer)
        # limit: how much asyncio reads ahead of us
        return await asyncio.open_connection(
            sock=sock, limit=1024, ssl=self.tls, server_hostname="localhost" if self.tls else None
        )

    def socket(self, receive_buffer: int = 0) -> socket.socket:
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", self.port))
        return sock

    async def request(self, path: str, *head: str, body: bytes = b"") -> tuple[str, bytes]:
        """One request over a connection of its own: (head, body) of the answer."""
        reader, writer = await self.connect()
        try:
            writer.write(request_head("POST" if body else "GET", path, "Connection: close", *head))
            writer.write(body)
            answer = await asyncio.wait_for(reader.read(-1), PATIENCE_S)
        finally:
            writer.close()
        first, _, rest = answer.partition(b"\r\n\r\n")
        return first.decode(), rest

    async def json(self, path: str) -> Any:
        _, body = await self.request(path)
        return json.loads(body)

    async def seen(self) -> dict[str, int]:
        return dict((await self.json("/state"))["seen"])

    async def stats(self) -> dict[str, Any]:
        return dict((await self.json("/state"))["stats"])

    async def until_seen(self, name: str, count: int = 1) -> None:
        await self.until(lambda state: state["seen"].get(name, 0) >= count)

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask for /state until the condition holds of it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            state = await self.json("/state")
            if condition(state):
                return dict(state)
            assert time.monotonic() < deadline, state
            await asyncio.sleep(0.05)

    async def settled(self, name: str) -> dict[str, Any]:
        """/state once the count has begun and stopped growing."""
        last = -1
        while True:
            state = await self.json("/state")
            count = state["seen"].get(name, 0)
            if count and count == last:
                return dict(state)
            last = count
            await asyncio.sleep(0.7)


def request_head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def upgrade_head(path: str) -> bytes:
    return request_head(
        "GET",
        path,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )


async def read_answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """One answer with Content-Length from a connection that may stay open."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)).decode()
    length = next(
        int(line.partition(":")[2])
        for line in head.split("\r\n")
        if line.lower().startswith("content-length:")
    )
    return head, await asyncio.wait_for(reader.readexactly(length), PATIENCE_S)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What still came until the end, which may be a reset."""
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := await asyncio.wait_for(reader.read(65536), PATIENCE_S):
            received += piece
    return bytes(received)


@contextlib.asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.transport.abort()
