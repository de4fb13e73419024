"""What a light tenant notices of one that floods: its time to the first token, alone and beside a
tenant that asks for ten times its share, on the same real model in one run.
`python benchmarks/flooding.py [--seconds 60] [--running 64]`

First the capacity is measured, by requests that all come at once. A share is half of it, there
being two tenants. The light one asks at a quarter of its share, evenly; the flood at ten times its
own, and what is refused is gone. Both ask at their rates whatever comes back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import aiohttp

from benchmarks.report import Table, machine
from benchmarks.servers import Server, platform

FLOOD = 10
LIGHT_SHARE = 0.25
CAPACITY_REQUESTS = 32
# Before the flood fills the engine, it is none.
SETTLING_S = 10
MOST_OUTSTANDING = 600


@dataclass
class Asked:
    """One tenant's requests. first_s: to the first text of each."""

    first_s: list[float] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def first_ms(self) -> list[float]:
        return [first * 1000 for first in self.first_s]


class Tenant:
    def __init__(
        self, session: aiohttp.ClientSession, server: Server, key: str, *, tokens: int
    ) -> None:
        """tokens: of each answer"""
        self._session = session
        self._server = server
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tokens = tokens
        self._asked = 0
        self._open = 0

    async def at_once(self, requests: int) -> float:
        """How many seconds they take."""
        asked, began = Asked(), time.perf_counter()
        await asyncio.gather(*(self._one(asked) for _ in range(requests)))
        return time.perf_counter() - began

    async def at_rate(self, a_second: float, seconds: float) -> Asked:
        """Ask evenly for so long, and wait for the answers."""
        asked, began = Asked(), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(max(1, round(a_second * seconds))):
                await asyncio.sleep(max(0.0, began + number / a_second - time.perf_counter()))
                tasks.create_task(self._one(asked))
        return asked

    async def until_cancelled(self, asked: Asked, a_second: float) -> None:
        """Ask evenly; what has not ended by then is left."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if self._open < MOST_OUTSTANDING:
                    tasks.create_task(self._one(asked))
                else:
                    asked.ended["not asked"] += 1
                await asyncio.sleep(1 / a_second)

    async def _one(self, asked: Asked) -> None:
        self._asked += 1
        self._open += 1
        try:
            asked.ended[await self._ask(asked, self._asked)] += 1
        finally:
            self._open -= 1

    async def _ask(self, asked: Asked, number: int) -> str:
        body = _body(self._server.model, number, self._tokens)
        url, began = f"{self._server.url}/v1/chat/completions", time.perf_counter()
        has_text = False
        async with self._session.post(url, json=body, headers=self._headers) as response:
            if response.status != 200:
                return str(response.status)
            async for line in response.content:
                if not has_text and (has_text := _has_text(line)):
                    asked.first_s.append(time.perf_counter() - began)
        return "answered"


def _body(model: str, number: int, tokens: int) -> dict[str, Any]:
    """With a prompt of its own, so that no prefix cache answers; as long as is asked for."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": f"({number}) Tell me the story of a river."}],
        "max_tokens": tokens,
        "min_tokens": tokens,
        "stream": True,
    }


def _has_text(line: bytes) -> bool:
    if not line.startswith(b"data: {"):
        return False
    choices = json.loads(line[6:]).get("choices") or [{"delta": {}}]
    return bool(choices[0]["delta"].get("content"))


async def measure(server: Server, *, seconds: float, tokens: int) -> Table:
    timeout, connector = aiohttp.ClientTimeout(total=600), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        flood = Tenant(session, server, server.key, tokens=tokens)
        light = Tenant(session, server, server.other_key, tokens=tokens)
        await light.at_once(2)
        share = CAPACITY_REQUESTS / await flood.at_once(CAPACITY_REQUESTS) / 2
        rate = share * LIGHT_SHARE
        print(
            f"capacity {2 * share:.2f}/s: light asks {rate:.2f}/s, the flood {FLOOD * share:.1f}/s"
        )
        alone = await light.at_rate(rate, seconds)
        flooded = Asked()
        flooding = asyncio.create_task(flood.until_cancelled(flooded, FLOOD * share))
        await asyncio.sleep(SETTLING_S)
        beside = await light.at_rate(rate, seconds)
        flooding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await flooding
    print(f"flood {dict(flooded.ended)}; light {dict(alone.ended)}, then {dict(beside.ended)}")
    table = Table("beside a flood", "alone")
    table.add_times("first token", beside.first_ms, alone.first_ms)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="alone, and beside the flood")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--running", type=int, nargs="*", default=[64], help="at once, at most")
    parser.add_argument("--engine", default="vllm", help="`fake` to try the script out")
    options = parser.parse_args()
    print(machine())
    for running in options.running:
        with platform(options.engine, NEHIR_ENGINE_MAX_RUNNING=str(running)) as nehir:
            print(f"\nat most {running} at once in the engine")
            print(asyncio.run(measure(nehir, seconds=options.seconds, tokens=options.tokens)))


if __name__ == "__main__":
    main()
