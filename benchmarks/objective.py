"""The time between tokens of the real model under more load than it has room for, with a latency
objective and without one. `python benchmarks/objective.py [--objective-ms 70] [--rounds 3]`

Both in one process, in turn: as many requests at once through queue, engine host, token logs and
settlement, on a Valkey and a database of their own. What is measured is what the engine delivers;
the first round of each doesn't count, in which the host finds out how fast the engine is.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.holding import request
from benchmarks.own_ground import own_ground
from benchmarks.report import Table, machine
from benchmarks.servers import CONTEXT_TOKENS, MODEL, models

PAUSE_S = 3.0
KV_CACHE_GIB = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objective-ms", type=int, default=70)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    parser.add_argument("--rounds", type=int, default=3, help="of each side")
    options = parser.parse_args()
    print(machine())
    with own_ground():
        print(asyncio.run(compare(options)))


@dataclass(slots=True)
class Side:
    """gaps_ms: between tokens; first_ms: from being asked for to the first token"""

    gaps_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    took_s: float = 0.0
    tokens: int = 0


@dataclass(slots=True)
class Timed:
    """An engine whose deltas are timed."""

    engine: Any
    side: Side = field(default_factory=Side)
    asked_at: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def submit(self, asked: Any) -> AsyncGenerator[Any, None]:
        last = None
        async for delta in self.engine.submit(asked):
            now = time.perf_counter()
            if last is None:
                self.side.first_ms.append((now - self.asked_at) * 1000)
            else:
                self.side.gaps_ms.append((now - last) * 1000)
            last = now
            yield delta


async def compare(options: argparse.Namespace) -> Table:
    from benchmarks.own_ground import serving
    from inference.engine.factory import vllm_engine

    engine = vllm_engine(
        models() / MODEL,
        context_tokens=CONTEXT_TOKENS,
        arguments={"dtype": "bfloat16"},
        kv_cache_gib=KV_CACHE_GIB,
    )
    await engine.start()
    timed = Timed(engine)
    sides = {False: Side(), True: Side()}
    try:
        async with serving(timed) as answer_all:
            for number in range(options.rounds + 1):
                for wanted in (False, True):
                    await want(options.objective_ms if wanted else None)
                    timed.side = sides[wanted] if number else Side()
                    names = [f"gen_{number}-{wanted}-{n}" for n in range(options.requests)]
                    timed.asked_at = time.perf_counter()
                    took_s = await answer_all([request(name, options.tokens) for name in names])
                    timed.side.took_s += took_s
                    timed.side.tokens += options.requests * options.tokens
    finally:
        await engine.stop()
    return table(sides[True], sides[False], options)


async def want(objective_ms: int | None) -> None:
    """Until the host has learnt of it."""
    from inference.models import Route
    from kernel.database import database

    await database(lambda: Route.objects.update(itl_p95_standard_ms=objective_ms))
    await asyncio.sleep(PAUSE_S)


def table(wanted: Side, free: Side, options: argparse.Namespace) -> Table:
    found = Table(f"objective {options.objective_ms} ms", "none")
    found.add_times("between tokens", wanted.gaps_ms, free.gaps_ms)
    late = [
        100 * fmean(gap > options.objective_ms for gap in side.gaps_ms) for side in (wanted, free)
    ]
    found.add("tokens that come later than that (%)", *late)
    found.add("to the first token, mean (ms)", fmean(wanted.first_ms), fmean(free.first_ms))
    found.add("tokens/s", wanted.tokens / wanted.took_s, free.tokens / free.took_s)
    return found


if __name__ == "__main__":
    main()
