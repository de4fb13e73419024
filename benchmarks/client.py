"""The one client of every measurement, in a process of its own: so that what it costs is the same
for both sides and on neither's account.

A job comes as JSON on standard input, what was measured leaves as JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp

TIMEOUT_S = 300


@dataclass
class Job:
    """requests: chat completion bodies, sent by `concurrency` workers, each one after the other."""

    url: str
    key: str
    requests: list[dict[str, Any]]
    concurrency: int


@dataclass
class Measured:
    """One request. Times in seconds from its start.

    first_s: to the first text (of a stream) or the whole answer; gaps_s: between pieces of text
    tokens: as the usage says
    """

    first_s: float = 0.0
    total_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    tokens: int = 0


@dataclass
class Result:
    """wall_s: from the first request's start to the last one's end."""

    wall_s: float
    requests: list[Measured]

    @property
    def tokens_per_s(self) -> float:
        return sum(request.tokens for request in self.requests) / self.wall_s

    @property
    def requests_per_s(self) -> float:
        return len(self.requests) / self.wall_s

    @property
    def first_ms(self) -> list[float]:
        return [request.first_s * 1000 for request in self.requests]

    @property
    def gaps_ms(self) -> list[float]:
        return [gap * 1000 for request in self.requests for gap in request.gaps_s]


def measure(job: Job) -> Result:
    """Do the job in a process of its own. Raises CalledProcessError if a request fails."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asdict(job)),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found = json.loads(done.stdout)
    return Result(found["wall_s"], [Measured(**request) for request in found["requests"]])


async def _work(job: Job) -> Result:
    waiting = list(reversed(job.requests))
    measured: list[Measured] = []

    async def worker(session: aiohttp.ClientSession) -> None:
        while waiting:
            measured.append(await _one(session, job, waiting.pop()))

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        began = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(job.concurrency)))
        return Result(time.perf_counter() - began, measured)


async def _one(session: aiohttp.ClientSession, job: Job, body: dict[str, Any]) -> Measured:
    headers = {"Authorization": f"Bearer {job.key}"}
    began = time.perf_counter()
    async with session.post(
        f"{job.url}/v1/chat/completions", json=body, headers=headers
    ) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        if body.get("stream"):
            return await _stream(response, began)
        whole = await response.json()
    ended = time.perf_counter() - began
    return Measured(ended, ended, [], whole["usage"]["completion_tokens"])


async def _stream(response: aiohttp.ClientResponse, began: float) -> Measured:
    measured = Measured()
    last = 0.0
    async for line in response.content:
        if not line.startswith(b"data: {"):
            continue
        now = time.perf_counter() - began
        chunk = json.loads(line[6:])
        if "error" in chunk:
            raise RuntimeError(str(chunk["error"]))
        if usage := chunk.get("usage"):
            measured.tokens = usage["completion_tokens"]
        if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
            if last:
                measured.gaps_s.append(now - last)
            else:
                measured.first_s = now
            last = now
    measured.total_s = time.perf_counter() - began
    return measured


if __name__ == "__main__":
    json.dump(asdict(asyncio.run(_work(Job(**json.load(sys.stdin))))), sys.stdout)
