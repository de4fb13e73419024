"""Event-stream clients on bare sockets, many in one process: a few microseconds an event, so that
what is measured is the server. A job comes as JSON on standard input's first line.

    streams   ask for `count` answers at once, `rounds` times over; prints what was measured as JSON
    silent    ask for `count` answers and never read; prints `open`, ends with standard input
    idle      ask for `count` answers and read whatever comes; as `silent`
    reconnect begin one answer, and read it again from its middle `count` times, one after the other
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

TEXT = re.compile(rb'"content": ?"[^"]')
USAGE = re.compile(rb'"completion_tokens": ?(\d+)')
STATUS = re.compile(rb"HTTP/1.1 (\d+)")
GENERATION = re.compile(rb"X-Generation-Id: (\S+)", re.IGNORECASE)
POSITION = re.compile(rb"\nid: (\d+)")
TAIL_BYTES = 600
SMALLEST_BUFFER = 4096
OPENED_AT_ONCE = 50


@dataclass
class Job:
    """high_water_tokens: asked for, unless 0"""

    what: str
    url: str
    key: str
    model: str
    count: int
    tokens: int
    rounds: int = 1
    high_water_tokens: int = 0


@dataclass
class Measured:
    """first_ms: to the first text of each answer; gaps_ms: between pieces that carry text"""

    wall_s: float = 0.0
    tokens: int = 0
    first_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)


def measure(job: Job) -> Measured:
    """In a process of its own. Raises CalledProcessError if an answer fails."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asdict(job)),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Measured(**json.loads(done.stdout))


class Background:
    """Clients of a process of their own that stay until the context is left."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> Background:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asdict(self._job)).encode() + b"\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"open\n":
            raise RuntimeError("The clients could not connect.")
        return self

    def leave_at_once(self) -> None:
        """All their connections break off in the same moment."""
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        self.leave_at_once()


class Stream(asyncio.Protocol):
    """One answer, from its request to `[DONE]`."""

    def __init__(self, request: bytes, *, reads: bool = True) -> None:
        self._request = request
        self._reads = reads
        self._tail = b""
        self.first_ms = 0.0
        self.gaps_ms: list[float] = []
        self.tokens = 0
        self.generation = self.position = ""
        self.has_text = asyncio.get_running_loop().create_future()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._began = self._last = time.perf_counter()
        transport.write(self._request)
        if not self._reads:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if TEXT.search(data):
            took_ms = (now - self._last) * 1000
            if self.first_ms:
                self.gaps_ms.append(took_ms)
            else:
                self.first_ms = took_ms
            self._last = now
            if not self.has_text.done():
                self.has_text.set_result(None)
        self._tail = self._tail[-TAIL_BYTES:] + data
        if not self.generation:
            self._take_head()
        if positions := POSITION.findall(data):
            self.position = positions[-1].decode()
        if b"data: [DONE]" in self._tail and not self.done.done():
            if usage := USAGE.search(self._tail):
                self.tokens = int(usage.group(1))
            self.done.set_result(None)
            self.transport.close()

    def _take_head(self) -> None:
        status = STATUS.search(self._tail)
        if status and status.group(1) != b"200":
            self._fail(self._tail.decode(errors="replace"))
        if found := GENERATION.search(self._tail):
            self.generation = found.group(1).decode()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"The connection was lost: {error} {self._tail[-300:]!r}")

    def _fail(self, why: str) -> None:
        for future in (self.has_text, self.done):
            if not future.done():
                future.set_exception(RuntimeError(why))
                future.exception()


class Clients:
    def __init__(self, job: Job) -> None:
        self._job = job
        target = urlsplit(job.url)
        self._address = str(target.hostname), int(target.port or 80)

    def _ask(self) -> bytes:
        options: dict[str, Any] = {"include_usage": True}
        if self._job.high_water_tokens:
            options["high_water_tokens"] = self._job.high_water_tokens
        content = f"{time.perf_counter_ns()} Tell me the story of a river."
        body = {
            "model": self._job.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self._job.tokens,
            "stream": True,
            "stream_options": options,
        }
        raw = json.dumps(body).encode()
        return self._head("POST /v1/chat/completions", f"Content-Length: {len(raw)}\r\n") + raw

    def _head(self, line: str, more: str = "") -> bytes:
        host = f"{self._address[0]}:{self._address[1]}"
        key = f"Authorization: Bearer {self._job.key}\r\nContent-Type: application/json\r\n"
        return f"{line} HTTP/1.1\r\nHost: {host}\r\n{key}{more}\r\n".encode()

    async def open(self, request: bytes | None = None, *, reads: bool = True) -> Stream:
        loop = asyncio.get_running_loop()
        plug = socket.socket()
        if not reads:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALLEST_BUFFER)
        plug.setblocking(False)
        await loop.sock_connect(plug, self._address)
        asked = request or self._ask()
        _, stream = await loop.create_connection(lambda: Stream(asked, reads=reads), sock=plug)
        return stream

    async def streams(self) -> Measured:
        measured, began = Measured(), time.perf_counter()

        async def one_after_the_other() -> None:
            for _ in range(self._job.rounds):
                stream = await self.open()
                await stream.done
                measured.tokens += stream.tokens
                measured.first_ms.append(stream.first_ms)
                measured.gaps_ms.extend(stream.gaps_ms)

        await asyncio.gather(*(one_after_the_other() for _ in range(self._job.count)))
        measured.wall_s = time.perf_counter() - began
        return measured

    async def stay(self, *, reads: bool) -> None:
        """Without a thundering herd at the door: how fast they come in is not the point."""
        opened: list[Stream] = []
        while len(opened) < self._job.count:
            few = min(OPENED_AT_ONCE, self._job.count - len(opened))
            opened += await asyncio.gather(*(self.open(reads=reads) for _ in range(few)))
            await asyncio.sleep(0.1)
            if reads:
                await asyncio.gather(*(stream.has_text for stream in opened[-few:]))
        print("open", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def reconnect(self) -> Measured:
        """first_ms: from opening a new connection to the first text that is replayed."""
        measured, stream = Measured(), await self.open()
        await stream.has_text
        for _ in range(self._job.count):
            await asyncio.sleep(0.1)
            path = f"/v1/generations/{stream.generation}/events?after={stream.position or 0}"
            began = time.perf_counter()
            await asyncio.sleep(0.05)  # so that there is something to replay
            again = await self.open(self._head(f"GET {path}"))
            await again.has_text
            measured.first_ms.append(again.first_ms)
            again.transport.abort()
        stream.transport.abort()
        measured.wall_s = time.perf_counter() - began
        return measured


async def _work(job: Job) -> None:
    clients = Clients(job)
    if job.what in ("silent", "idle"):
        await clients.stay(reads=job.what == "idle")
    else:
        print(json.dumps(asdict(await getattr(clients, job.what)())))


if __name__ == "__main__":
    asyncio.run(_work(Job(**json.loads(sys.stdin.readline()))))
