"""How long what was taken away still works, over two web processes on the fake engine: from the
commit of a key's revocation to the last request that was served, and to the end of each stream that
was open.

    .venv/bin/python benchmarks/revocation.py [times]
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import machine, percentile
from benchmarks.servers import Server, platform

TIMES, STREAMS, ASKERS = 20, 8, 4
SETTINGS = {"NEHIR_WEB_PROCESSES": "2", "NEHIR_FAKE_TTFT_MS": "20", "NEHIR_FAKE_ITL_MS": "20"}
ENDED = '"access_ended"'
PATIENCE_S = 30


class Platform:
    """The server's key, revoked and given back past the platform."""

    def __init__(self, server: Server) -> None:
        self._file = Path(psutil.Process(server.pid).environ()["NEHIR_VAR"]) / "nehir.sqlite3"
        self._key_id = server.key.split("_")[2]
        self.url = server.url
        self.headers = {"Authorization": f"Bearer {server.key}"}

    def set_revoked(self, at: str | None) -> float:
        """When it was committed."""
        change = "UPDATE tenants_apikey SET revoked_at = ? WHERE id = ?"
        with closing(sqlite3.connect(self._file, timeout=20)) as store:
            store.execute(change, (at, self._key_id))
            store.commit()
        return time.perf_counter()


def connection(platform: Platform) -> aiohttp.ClientSession:
    """Each request on a connection of its own, to whichever process takes it."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    return aiohttp.ClientSession(platform.url, headers=platform.headers, connector=connector)


async def stream(session: aiohttp.ClientSession, begun: asyncio.Semaphore) -> float:
    """When it ended with the error that says why."""
    body = {
        "model": "fake",
        "messages": [{"role": "user", "content": "a long story"}],
        "stream": True,
        "max_tokens": 6000,
    }
    said_why = False
    async with session.post("/v1/chat/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"id:"):
                begun.release()
            said_why = said_why or ENDED in line.decode()
    if not said_why:
        raise RuntimeError("A stream ended without saying why.")
    return time.perf_counter()


async def last_served(session: aiohttp.ClientSession) -> float:
    """When the last request was sent that was served."""
    served = 0.0
    while True:
        sent = time.perf_counter()
        async with session.get("/v1/models") as response:
            await response.read()
            if response.status == 401:
                return served
        served = sent


async def once(platform: Platform) -> tuple[float, list[float]]:
    """Seconds to the last request that was served, and to the end of each stream."""
    async with connection(platform) as session, asyncio.timeout(PATIENCE_S):
        begun = asyncio.Semaphore(0)
        streams = [asyncio.create_task(stream(session, begun)) for _ in range(STREAMS)]
        askers = [asyncio.create_task(last_served(session)) for _ in range(ASKERS)]
        for _ in range(STREAMS * 5):
            await begun.acquire()
        revoked_at = await asyncio.to_thread(platform.set_revoked, "2020-01-01 00:00:00")
        ended = await asyncio.gather(*streams)
        served = await asyncio.gather(*askers)
        platform.set_revoked(None)
        good = False
        while not good:
            await asyncio.sleep(0.5)
            answers = [await session.get("/v1/models") for _ in range(10)]
            good = all(answer.status == 200 for answer in answers)
    return max(0.0, max(served) - revoked_at), [at - revoked_at for at in ended]


async def measure(platform: Platform, times: int) -> None:
    served, ended = [], []
    for _ in range(times):
        last, ends = await once(platform)
        served.append(last * 1e3)
        ended += [each * 1e3 for each in ends]
    for name, values in (("last request served", served), ("stream ended", ended)):
        worst = max(values)
        p50 = percentile(values, 50)
        print(f"{name:<20} {len(values):4} times   p50 {p50:4.0f} ms   longest {worst:4.0f} ms")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("times", type=int, nargs="?", default=TIMES)
    chosen = arguments.parse_args()
    print(machine())
    with platform("fake", **SETTINGS) as server:
        asyncio.run(measure(Platform(server), chosen.times))
