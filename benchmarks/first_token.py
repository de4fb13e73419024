"""Time to the first token and between tokens: the platform beside the bare vLLM server, on the same
model in one run. `python benchmarks/first_token.py [--requests 24] [--tokens 24]`

Both engines are loaded the whole time and asked in turn, never together: they would fight for the
cores. Before each turn there is a pause, since a vLLM worker on a CPU spins for a second after its
last work.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.client import Job, Result, measure
from benchmarks.report import Table, machine
from benchmarks.servers import Server, bare_vllm, platform

PAUSE_S = 1.5
CONCURRENCIES = (1, 8)
# Two to warm up: the first request of a process pays for what it loads.
WARM_UP = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=24, help="for each side and concurrency")
    parser.add_argument("--tokens", type=int, default=24, help="of each answer")
    options = parser.parse_args()
    print(machine())
    with bare_vllm() as bare, platform("vllm") as nehir:
        compare(nehir, bare, concurrency=1, rounds=WARM_UP, tokens=options.tokens, tag="warm-up")
        for concurrency in CONCURRENCIES:
            rounds = max(1, options.requests // concurrency)
            ours, theirs = compare(
                nehir,
                bare,
                concurrency=concurrency,
                rounds=rounds,
                tokens=options.tokens,
                tag=f"round of {concurrency}",
            )
            print(f"\n{concurrency} at a time, {rounds * concurrency} requests each")
            print(table(ours, theirs))
            print(f"first token, the middle one of the pairs' differences: {paired(ours, theirs)}")


def compare(
    nehir: Server, bare: Server, *, concurrency: int, rounds: int, tokens: int, tag: str
) -> tuple[list[Result], list[Result]]:
    """Both asked the same in turn, each going first every other time."""
    ours: list[Result] = []
    theirs: list[Result] = []
    for number in range(rounds):
        turns = [(nehir, ours), (bare, theirs)]
        for server, results in turns if number % 2 else reversed(turns):
            time.sleep(PAUSE_S)
            names = [f"{tag}, {number}-{place}" for place in range(concurrency)]
            bodies = [body(server, name, tokens) for name in names]
            results.append(measure(Job(server.url, server.key, bodies, concurrency)))
    return ours, theirs


def body(server: Server, name: str, tokens: int) -> dict[str, object]:
    """A request with a prompt of its own, so that no prefix cache answers for the engine."""
    return {
        "model": server.model,
        "messages": [{"role": "user", "content": f"({name}) Tell me the story of a river."}],
        "temperature": 0,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def paired(ours: list[Result], theirs: list[Result]) -> str:
    """Pairs were asked the same within seconds, so that what else the machine does weighs on both
    alike.
    """
    middles = [
        (median(mine.first_ms), median(other.first_ms))
        for mine, other in zip(ours, theirs, strict=True)
    ]
    return f"{median(mine - other for mine, other in middles):+.1f} ms"


def table(ours: list[Result], theirs: list[Result]) -> Table:
    made = Table("Nehir", "bare vLLM")
    sides = (ours, theirs)
    firsts = [[value for result in side for value in result.first_ms] for side in sides]
    gaps = [[value for result in side for value in result.gaps_ms] for side in sides]
    made.add_times("first token", *firsts)
    made.add_times("between tokens", *gaps)
    rates = [sum(result.tokens_per_s for result in side) / len(side) for side in sides]
    made.add("tokens/s", *rates)
    return made


if __name__ == "__main__":
    main()
