"""What the platform adds: on the fake engine, beside a plain server that answers at the same pace.
`python benchmarks/overhead.py [--rounds 3]`
"""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.client import Job, Result, measure
from benchmarks.report import Table, machine
from benchmarks.servers import Server, plain_server, platform

TTFT_MS, ITL_MS = 20, 20
STREAMS = (1, 32, 128)
TOKENS = 50
# At no pace at all: what is left is what a request costs.
WHOLE_REQUESTS, WHOLE_TOKENS, WHOLE_AT_ONCE = 400, 8, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="requests for each stream")
    options = parser.parse_args()
    print(machine())
    # An engine host takes 64 at once unless told otherwise; here it is to take all that come.
    roomy = {"NEHIR_ENGINE_MAX_RUNNING": "256"}
    pace = {"NEHIR_FAKE_TTFT_MS": str(TTFT_MS), "NEHIR_FAKE_ITL_MS": str(ITL_MS)}
    with (
        plain_server(ttft_ms=TTFT_MS, itl_ms=ITL_MS) as plain,
        platform("fake", **roomy, **pace) as nehir,
    ):
        for streams in STREAMS:
            sides = [measure(streaming(side, streams, options.rounds)) for side in (nehir, plain)]
            print(f"\n{streams} streams of {TOKENS} tokens at {ITL_MS} ms")
            print(stream_table(*sides))
    no_pace = {"NEHIR_FAKE_TTFT_MS": "0", "NEHIR_FAKE_ITL_MS": "0"}
    with plain_server(ttft_ms=0, itl_ms=0) as plain, platform("fake", **roomy, **no_pace) as nehir:
        sides = [measure(whole(side)) for side in (nehir, plain)]
        print(f"\n{WHOLE_REQUESTS} whole answers of {WHOLE_TOKENS} tokens, {WHOLE_AT_ONCE} at once")
        print(whole_table(*sides))


def streaming(server: Server, streams: int, rounds: int) -> Job:
    rounds = max(rounds, 8 // streams)
    asked = [body(server, TOKENS) | STREAM for _ in range(streams * rounds)]
    _warm_up(server)
    return Job(server.url, server.key, asked, streams)


def whole(server: Server) -> Job:
    _warm_up(server)
    asked = [body(server, WHOLE_TOKENS) for _ in range(WHOLE_REQUESTS)]
    return Job(server.url, server.key, asked, WHOLE_AT_ONCE)


def _warm_up(server: Server) -> None:
    measure(Job(server.url, server.key, [body(server, 5) | STREAM] * 8, 4))


STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def body(server: Server, tokens: int) -> dict[str, object]:
    content = f"{uuid.uuid4()} Tell me the story of a river."
    return {
        "model": server.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": tokens,
    }


def stream_table(ours: Result, theirs: Result) -> Table:
    made = Table("Nehir", "plain server")
    made.add_times("first token", ours.first_ms, theirs.first_ms)
    made.add_times("between pieces", ours.gaps_ms, theirs.gaps_ms)
    made.add("tokens/s", ours.tokens_per_s, theirs.tokens_per_s)
    return made


def whole_table(ours: Result, theirs: Result) -> Table:
    made = Table("Nehir", "plain server")
    made.add_times("whole answer", ours.first_ms, theirs.first_ms)
    made.add("requests/s", ours.requests_per_s, theirs.requests_per_s)
    return made


if __name__ == "__main__":
    main()
