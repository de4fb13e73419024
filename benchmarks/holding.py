"""What holding costs the others in a batch, and what the engine host costs beside bare AsyncLLM,
with the real model. `python benchmarks/holding.py [--rounds 3] [--tokens 128]`

Both are compared within one process, in turn and never together. Holding: 16 requests undisturbed,
and 16 of which one is held and released the whole time. The host: 32 requests through queue, engine
host, token logs and settlement on a Valkey and a database of their own, the same 32 straight to its
engine, and straight to two AsyncLLMs with vLLM's own scheduler. The two are the same; how far apart
they come out is how far the figures can be trusted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.own_ground import own_ground
from benchmarks.report import Table, machine
from benchmarks.servers import CONTEXT_TOKENS, MODEL, models

BATCH = 16
STREAMS = 32
# As often as a brisk reader's credit comes.
HOLD_S, GO_S = 0.3, 0.3
PAUSE_S = 1.5
KV_CACHE_GIB = 1
SLOTS = 64

# Answers so many tokens to each of these names, in how many seconds.
Side = Callable[[list[str], int], Awaitable[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each side")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    options = parser.parse_args()
    print(machine())
    with own_ground():
        asyncio.run(compare(options.rounds, options.tokens))


async def compare(rounds: int, tokens: int) -> None:
    from inference.engine.factory import vllm_engine

    engine = vllm_engine(
        models() / MODEL,
        context_tokens=CONTEXT_TOKENS,
        arguments={"dtype": "bfloat16"},
        kv_cache_gib=KV_CACHE_GIB,
        slots=SLOTS,
        class_floor=0.05,
    )
    await engine.start()
    try:
        await batch(engine, BATCH, tokens=2, tag="warm-up")
        print(await holding(engine, rounds, tokens))
        print(await hosting(engine, rounds, tokens))
    finally:
        await engine.stop()


# -- Holding


async def holding(engine: Any, rounds: int, tokens: int) -> Table:
    held_ms: list[float] = []
    undisturbed_ms: list[float] = []
    for number in range(rounds):
        for is_held in (True, False) if number % 2 else (False, True):
            await asyncio.sleep(PAUSE_S)
            tag = f"{number}-{is_held}"
            disturbing = asyncio.create_task(hold_and_release(engine, f"{tag}-0", is_held))
            others = (await batch(engine, BATCH, tokens=tokens, tag=tag, release=disturbing))[1:]
            (held_ms if is_held else undisturbed_ms).extend(gap for one in others for gap in one)
    table = Table("one held", "undisturbed")
    table.add_times(
        f"1 of {BATCH} held and released: the others between tokens", held_ms, undisturbed_ms
    )
    return table


async def hold_and_release(engine: Any, name: str, is_held: bool) -> None:
    """Until cancelled; the last thing is a release."""
    try:
        while is_held:
            await asyncio.sleep(GO_S)
            await engine.hold(name)
            await asyncio.sleep(HOLD_S)
            await engine.release(name)
    finally:
        await engine.release(name)


async def batch(
    engine: Any, size: int, *, tokens: int, tag: str, release: asyncio.Task[None] | None = None
) -> list[list[float]]:
    """So many at once: between tokens, in milliseconds, of each."""
    streams = [
        asyncio.create_task(gaps(engine.submit(request(f"{tag}-{place}", tokens))))
        for place in range(size)
    ]
    await asyncio.gather(*streams[1:])
    if release is not None:
        release.cancel()
        await asyncio.gather(release, return_exceptions=True)
    return list(await asyncio.gather(*streams))


async def gaps(deltas: AsyncIterator[Any]) -> list[float]:
    found, last = [], None
    async for _ in deltas:
        now = time.perf_counter()
        if last is not None:
            found.append((now - last) * 1000)
        last = now
    return found


def request(name: str, tokens: int) -> Any:
    """With a prompt of its own, so that no prefix cache answers for the engine."""
    from inference.engine.protocol import EngineRequest, Sampling

    sampling = Sampling(max_tokens=tokens, min_tokens=tokens, temperature=0.0)
    return EngineRequest(name, [1, *name.encode(), 2, 198], sampling, cache_salt=name)


# -- The host


async def hosting(engine: Any, rounds: int, tokens: int) -> Table:
    from benchmarks.own_ground import serving

    bare, same = bare_llm(), bare_llm()
    try:
        async with serving(engine) as answer_all:

            async def hosted(names: list[str], tokens: int) -> float:
                return await answer_all([request(name, tokens) for name in names])

            sides = {
                "engine host": hosted,
                "its engine by itself": partial(by_itself, engine),
                "bare": partial(straight, bare),
                "bare AsyncLLM again": partial(straight, same),
            }
            rates, spent = await rates_of(sides, rounds, tokens)
    finally:
        bare.shutdown()
        same.shutdown()
    theirs = rates.pop("bare")
    table = Table("Nehir's", "bare AsyncLLM")
    for side, ours in rates.items():
        table.add(f"{STREAMS} streams: tokens/s, median, {side}", median(ours), median(theirs))
        here, bare_here = median(spent[side]), median(spent["bare"])
        table.add(f"{STREAMS} streams: us of this process a token, {side}", here, bare_here)
    return table


async def rates_of(
    sides: dict[str, Side], rounds: int, tokens: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Tokens per second of each, and processor time of this process in microseconds a token, by
    round: on a machine that does other things as well, one round
    says little, and a sum is ruled by its slowest. Who goes first goes round; a first, short round
    doesn't count.
    """
    rates: dict[str, list[float]] = {side: [] for side in sides}
    spent: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        order = deque(sides)
        order.rotate(number)
        for side in order:
            await asyncio.sleep(PAUSE_S)
            names = [f"gen_{number}-{side}-{place}" for place in range(STREAMS)]
            before_s = time.process_time()
            took_s = await sides[side](names, tokens if number else 2)
            if number:
                rates[side].append(STREAMS * tokens / took_s)
                spent_us = (time.process_time() - before_s) * 1e6
                spent[side].append(spent_us / (STREAMS * tokens))
    return rates, spent


def bare_llm() -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = AsyncEngineArgs(
        model=str(models() / MODEL),
        max_model_len=CONTEXT_TOKENS,
        dtype="bfloat16",
        enforce_eager=True,
        disable_log_stats=True,
    )
    return AsyncLLM.from_engine_args(arguments)


async def by_itself(engine: Any, names: list[str], tokens: int) -> float:
    """Seconds that the engine takes without its host."""
    began = time.perf_counter()
    await asyncio.gather(*(gaps(engine.submit(request(name, tokens))) for name in names))
    return time.perf_counter() - began


async def straight(bare: Any, names: list[str], tokens: int) -> float:
    """Seconds that vLLM takes by itself."""
    began = time.perf_counter()
    await asyncio.gather(*(one_straight(bare, name, tokens) for name in names))
    return time.perf_counter() - began


async def one_straight(bare: Any, name: str, tokens: int) -> None:
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import RequestOutputKind

    asked = request(name, tokens)
    params = SamplingParams(
        max_tokens=tokens,
        min_tokens=tokens,
        temperature=0.0,
        output_kind=RequestOutputKind.DELTA,
    )
    prompt = TokensPrompt(prompt_token_ids=asked.prompt_token_ids)
    async for _ in bare.generate(prompt, params, name):
        pass


if __name__ == "__main__":
    main()
