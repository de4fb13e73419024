"""Daphne as it comes beside `web.backpressure`, one after the other in one run.

    .venv/bin/python benchmarks/backpressure.py

Prints: what a reader that never reads makes the server take and hold, messages a second to a reader
that keeps up, and memory a connection. Both servers run the application below.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

ROOT = Path(__file__).resolve().parent.parent
SERVERS = {"daphne": "daphne", "ours": "web.backpressure"}
MB = 1_000_000
MESSAGE = 100
seen = {"accepted": 0, "stall_ms": 0.0}


# -- The application


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    query = {name: int(value) for name, value in parse_qsl(scope["query_string"].decode())}
    kind = scope["type"]
    if scope["path"] == "/state":
        await answer(send, json.dumps(seen | {"rss": rss_bytes()}).encode())
        seen["stall_ms"] = 0.0
    elif kind == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        piece = b"x" * query.get("piece", 0)
        await flood(send, {"type": "websocket.send", "bytes": piece}, query)
        while (await receive())["type"] != "websocket.disconnect":
            pass
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        piece = b"x" * query.get("piece", 0)
        await flood(send, {"type": "http.response.body", "body": piece, "more_body": True}, query)
        await send({"type": "http.response.body", "body": b""})


async def flood(send: Any, message: dict[str, Any], query: dict[str, int]) -> None:
    """count messages of piece bytes; watched: how long the loop stood still meanwhile."""
    watch = asyncio.create_task(watch_loop())
    await asyncio.sleep(0.01)
    try:
        for _ in range(query.get("count", 0)):
            await send(message)
            seen["accepted"] += query["piece"]
        await asyncio.sleep(0.01)
    finally:
        watch.cancel()


async def watch_loop() -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        stood_ms = (time.perf_counter() - before) * 1000 - 1
        seen["stall_ms"] = max(seen["stall_ms"], stood_ms)


async def answer(send: Any, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- The clients


def head(path: str, *, websocket: bool = False) -> bytes:
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{upgrade if websocket else ''}\r\n".encode()


@dataclass
class Target:
    """A running server."""

    port: int

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def state(self) -> dict[str, float]:
        reader, writer = await self.connect()
        writer.write(head("/state"))
        await reader.readuntil(b"\r\n\r\n")
        state: dict[str, float] = json.loads(await reader.readuntil(b"}"))
        writer.close()
        return state

    async def settled(self) -> dict[str, float]:
        """The state once the application is sent no further."""
        state = await self.state()
        while True:
            await asyncio.sleep(1)
            last, state = state, await self.state()
            if state["accepted"] == last["accepted"] > 0:
                return state | {"stall_ms": max(last["stall_ms"], state["stall_ms"])}


async def never_reads(target: Target, *, websocket: bool) -> dict[str, float]:
    """200 MB for a client that reads none of it."""
    before = await target.state()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, ("127.0.0.1", target.port))
    await loop.sock_sendall(sock, head("/?piece=65536&count=3052", websocket=websocket))
    state = await target.settled()
    sock.close()
    return {
        "taken MB": (state["accepted"] - before["accepted"]) / MB,
        "memory grown MB": (state["rss"] - before["rss"]) / MB,
        "longest stall ms": state["stall_ms"],
    }


async def full_speed(target: Target, *, websocket: bool, count: int) -> dict[str, float]:
    """Small messages to a client that reads as fast as it can."""
    reader, writer = await target.connect()
    began = time.perf_counter()
    writer.write(head(f"/?piece={MESSAGE}&count={count}", websocket=websocket))
    await reader.readuntil(b"\r\n\r\n")
    overhead = 2 if websocket else len(b"64\r\n\r\n")
    left = count * (MESSAGE + overhead)
    while left > 0:
        left -= len(await reader.read(1 << 20))
    took_s = time.perf_counter() - began
    writer.close()
    return {"messages/s": count / took_s}


async def idle_connections(target: Target, *, websocket: bool, count: int) -> dict[str, float]:
    """Connections that were used once, and now wait."""
    before = await target.state()
    writers = []
    for _ in range(count):
        reader, writer = await target.connect()
        writer.write(head("/", websocket=websocket))
        await reader.readuntil(b"\r\n\r\n" if websocket else b"0\r\n\r\n")
        writers.append(writer)
    await asyncio.sleep(2)  # until the server has forgotten the requests
    state = await target.state()
    for writer in writers:
        writer.close()
    return {"KiB a connection": (state["rss"] - before["rss"]) / 1024 / count}


# -- The runs

Measure = Callable[[Target], Awaitable[dict[str, float]]]


def started(module: str) -> tuple[subprocess.Popen[bytes], Target]:
    """A server on a socket of ours, so that it can be connected to at once."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(1000)
        options = ("-v", "0", "--fd", str(sock.fileno()))
        process = subprocess.Popen(
            [sys.executable, "-m", module, *options, "backpressure:application"],
            pass_fds=(sock.fileno(),),
            cwd=ROOT / "benchmarks",
            env=os.environ | {"PYTHONPATH": str(ROOT / "platform")},
        )
        return process, Target(sock.getsockname()[1])


async def measured(module: str, measure: Measure) -> dict[str, float]:
    """One measurement of a server started for it."""
    process, target = started(module)
    try:
        await target.state()
        return await measure(target)
    finally:
        process.kill()
        process.wait()


async def main(messages: int, connections: int) -> None:
    rows: list[tuple[str, Measure]] = []
    for name, websocket in (("HTTP", False), ("WebSocket", True)):
        rows += [
            (f"{name}, never reads", lambda t, w=websocket: never_reads(t, websocket=w)),
            (
                f"{name}, {MESSAGE}-byte messages",
                lambda t, w=websocket: full_speed(t, websocket=w, count=messages),
            ),
            (
                f"{name}, {connections} idle",
                lambda t, w=websocket: idle_connections(t, websocket=w, count=connections),
            ),
        ]
    print(f"{'':42}" + "".join(f"{name:>10}" for name in SERVERS))
    for title, measure in rows:
        results = [await measured(module, measure) for module in SERVERS.values()]
        for figure in results[0]:
            values = "".join(f"{result[figure]:10.1f}" for result in results)
            print(f"{title + ', ' + figure:42}{values}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--connections", type=int, default=500)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.messages, arguments.connections))
