"""How soon the next turn of a conversation begins, with two replicas of the real model, if requests
are left for the replica that has their beginning and if not.
`python benchmarks/prefix_routing.py [--conversations 6] [--turns 3]`

Conversations begin with a prompt of their own of 1,000 tokens; the next turn's prompt is all that
was before, the answer, and 40 tokens more. One request at a time, the conversations in an order by
lot that is the same for both sides; each side has conversations of its own, on the same two loaded
engines.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.own_ground import hosting, own_ground, recorded
from benchmarks.report import Table, machine
from benchmarks.servers import CONTEXT_TOKENS, MODEL, models

REPLICAS = 2
FIRST_TOKENS, NEXT_TOKENS, ANSWER_TOKENS = 1000, 40, 16
# Ordinary words of the model's vocabulary.
VOCABULARY = range(1000, 40_000)
# vLLM's worker spins for a second after its last work, on a core of the other's.
PAUSE_S = 1.5
KV_CACHE_GIB = 1


@dataclass(slots=True)
class Answer:
    """replica: the incarnation that answered; first_token_ms: from enqueueing to the log's entry"""

    replica: str = ""
    first_token_ms: float = 0.0
    cached_tokens: int = 0
    token_ids: tuple[int, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=6, help="of each side")
    parser.add_argument("--turns", type=int, default=3, help="after the first of each")
    options = parser.parse_args()
    print(machine())
    with own_ground():
        asyncio.run(compare(options.conversations, options.turns))


async def compare(conversations: int, turns: int) -> None:
    from django.conf import settings

    engines = [await loaded() for _ in range(REPLICAS)]
    wait_ms, chance = settings.PREFIX_WAIT_MS, random.Random(7)  # noqa: S311 - an order by lot
    orders = [chance.sample(range(conversations), conversations) for _ in range(turns)]
    try:
        async with hosting(*engines) as release_id:
            sides = []
            for wait in (0, wait_ms):
                settings.PREFIX_WAIT_MS = wait
                sides.append(await talk(release_id, f"{wait}", conversations, orders))
    finally:
        for engine in engines:
            await engine.stop()
    report(*sides)


async def loaded() -> Any:
    from inference.engine.factory import vllm_engine

    engine = vllm_engine(
        models() / MODEL,
        context_tokens=CONTEXT_TOKENS,
        arguments={"dtype": "bfloat16"},
        kv_cache_gib=KV_CACHE_GIB,
    )
    await engine.start()
    return engine


async def talk(
    release_id: str, tag: str, conversations: int, orders: Iterable[list[int]]
) -> list[tuple[Answer, Answer]]:
    """Every next turn, behind the turn before it."""
    words = random.Random(tag)  # noqa: S311 - text that nobody has to guess
    so_far = [words.choices(VOCABULARY, k=FIRST_TOKENS) for _ in range(conversations)]
    last: list[Answer] = []
    found = []
    for number, prompt in enumerate(so_far):
        last.append(await ask(release_id, f"gen_{tag}-{number}", prompt))
    for turn, order in enumerate(orders):
        for number in order:
            so_far[number] += [*last[number].token_ids, *words.choices(VOCABULARY, k=NEXT_TOKENS)]
            answer = await ask(release_id, f"gen_{tag}-{number}-{turn}", so_far[number])
            found.append((last[number], answer))
            last[number] = answer
    return found


async def ask(release_id: str, generation_id: str, prompt: list[int]) -> Answer:
    from inference import queue
    from inference.engine.protocol import EngineRequest, Sampling
    from inference.messages import QueuedRequest
    from kernel.redis import client

    await asyncio.sleep(PAUSE_S)
    await recorded([generation_id])
    sampling = Sampling(max_tokens=ANSWER_TOKENS, min_tokens=ANSWER_TOKENS, temperature=0.0)
    engine = EngineRequest(generation_id, list(prompt), sampling, cache_salt="ten_a")
    request = QueuedRequest("ten_a", release_id, engine, time.time(), high_water_tokens=100_000)
    began = time.perf_counter()
    await queue.enqueue(client(), request)
    return await listen(request, began)


async def listen(request: Any, began: float) -> Answer:
    from inference import redis_keys, token_log
    from inference.messages import Finished, Started, Tokens
    from kernel.redis import client

    key = redis_keys.log(request.tenant_id, request.generation_id)
    answer, position = Answer(), token_log.BEGINNING
    while True:
        read = await client().xread({key: token_log.as_id(position)}, block=1000)
        for logged in token_log.parse(read[0][1]) if read else []:
            position, entry = logged.position, logged.entry
            if isinstance(entry, Started):
                answer.replica = entry.incarnation
            elif isinstance(entry, Tokens):
                answer.first_token_ms = (
                    answer.first_token_ms or (time.perf_counter() - began) * 1000
                )
                answer.cached_tokens = answer.cached_tokens or entry.cached_tokens
                answer.token_ids += entry.token_ids
            elif isinstance(entry, Finished):
                return answer


def report(off: list[tuple[Answer, Answer]], on: list[tuple[Answer, Answer]]) -> None:
    table = Table("left for it", "not")
    table.add_times(
        "next turn: first token",
        *([answer.first_token_ms for _, answer in side] for side in (on, off)),
    )
    for name, measure in (("answered where the last was (%)", stayed), ("cached tokens", cached)):
        table.add(f"next turn: {name}", measure(on), measure(off))
    print(table)


def stayed(side: list[tuple[Answer, Answer]]) -> float:
    return 100 * sum(before.replica == answer.replica for before, answer in side) / len(side)


def cached(side: list[tuple[Answer, Answer]]) -> float:
    """On average."""
    return sum(answer.cached_tokens for _, answer in side) / len(side)


if __name__ == "__main__":
    main()
