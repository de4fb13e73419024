"""What readers see of an engine host that is killed while another replica of its release is up, on
the fake engine: the longest pause of each answer that it ran, and whether the bill still agrees.

    .venv/bin/python benchmarks/failover.py [kills]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import redis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import machine, percentile
from benchmarks.servers import ROOT, Server, platform

KILLS, STREAMS, TOKENS, ITL_MS = 20, 16, 250, 20
PACE = {"NEHIR_FAKE_TTFT_MS": "20", "NEHIR_FAKE_ITL_MS": str(ITL_MS)}
LOAD_S = 60


@dataclass
class Heard:
    """One answer. gap_s: from the last text before its engine was lost to the first behind it;
    None if it had no such pause. tokens: by the usage it was told; words: as they came.
    """

    generation_id: str = ""
    gap_s: float | None = None
    tokens: int = 0
    words: int = 0


class Replica:
    """A second engine host beside the platform's own, to be killed."""

    def __init__(self, server: Server) -> None:
        self._env = psutil.Process(server.pid).environ()
        self._var = Path(self._env["NEHIR_VAR"])
        known = self._ready()
        command = [sys.executable, str(ROOT / "manage.py"), "engine", "--release", "fake"]
        self._process = subprocess.Popen(
            [*command, "--replica", "second"],
            env=self._env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + LOAD_S
        while not self._ready() - known:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("The second engine host does not get ready.")
            time.sleep(0.1)

    def _ready(self) -> set[bytes]:
        with redis.Redis(unix_socket_path=str(self._var / "run" / "valkey.sock")) as connection:
            names: Any = connection.smembers("nehir:replicas")
            records: Any = [(name, connection.get(b"nehir:replica:" + name)) for name in names]
        return {name for name, record in records if record and b"ready" in record}

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def billed(self, generation_ids: list[str]) -> dict[str, int]:
        """Tokens of these generations in the database, of those that are settled."""
        with sqlite3.connect(self._var / "nehir.sqlite3", timeout=20) as connection:
            rows = connection.execute(
                "SELECT id, output_tokens FROM inference_generation WHERE settled_at IS NOT NULL"
            ).fetchall()
        return {name: tokens for name, tokens in rows if name in generation_ids}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kills", nargs="?", type=int, default=KILLS)
    kills = parser.parse_args().kills
    print(machine(), flush=True)
    heard: list[Heard] = []
    agree = 0
    with platform(**PACE) as nehir:
        for _ in range(kills):
            second = Replica(nehir)
            answers = asyncio.run(_round(nehir, second))
            agree += _agreeing(second, answers)
            heard += answers
    gaps_ms = [answer.gap_s * 1000 for answer in heard if answer.gap_s is not None]
    print(f"{kills} kills, {len(heard)} answers, {len(gaps_ms)} of them lost their engine")
    for percent in (50, 95):
        print(f"gap p{percent}: {percentile(gaps_ms, percent):.0f} ms (target <= 3000)")
    print(f"longest gap: {max(gaps_ms):.0f} ms")
    print(f"text = usage = ledger = what the engine was asked for: {agree} of {len(heard)}")


async def _round(nehir: Server, second: Replica) -> list[Heard]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LOAD_S)) as session:
        answers = [asyncio.create_task(_answer(session, nehir, str(n))) for n in range(STREAMS)]
        # Not before they run, nor when they end.
        await asyncio.sleep(random.uniform(1, TOKENS * ITL_MS / 2000))  # noqa: S311 - chance
        await asyncio.to_thread(second.kill)
        return list(await asyncio.gather(*answers))


async def _answer(session: aiohttp.ClientSession, nehir: Server, question: str) -> Heard:
    heard, last, interrupted = Heard(), time.perf_counter(), False
    body = {
        "model": nehir.model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"Authorization": f"Bearer {nehir.key}"}
    url = f"{nehir.url}/v1/chat/completions"
    async with session.post(url, json=body, headers=headers) as response:
        heard.generation_id = response.headers["X-Generation-Id"]
        async for line in response.content:
            interrupted |= line.startswith(b": interrupted")
            chunk = json.loads(line[6:]) if line.startswith(b"data: {") else {}
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            heard.tokens = (chunk.get("usage") or {}).get("completion_tokens", heard.tokens)
            text = "".join(each["delta"].get("content") or "" for each in chunk.get("choices", ()))
            if text:
                now = time.perf_counter()
                if interrupted:
                    heard.gap_s, interrupted = now - last, False
                last = now
                heard.words += len(text.split())
    return heard


def _agreeing(second: Replica, answers: list[Heard]) -> int:
    names = [answer.generation_id for answer in answers]
    deadline = time.monotonic() + LOAD_S
    while len(billed := second.billed(names)) < len(names) and time.monotonic() < deadline:
        time.sleep(0.1)
    return sum(
        answer.words == answer.tokens == billed.get(answer.generation_id) == TOKENS
        for answer in answers
    )


if __name__ == "__main__":
    main()
