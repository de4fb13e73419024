"""Holding single requests inside real vLLM and letting them go on.

In float32: in bf16 greedy text depends on what else is in the batch.
"""

from __future__ import annotations

import asyncio
import json
import random

import psutil
import pytest

from inference.engine.protocol import Engine, EngineRequest
from tests.model.streams import SCHEMA, Stream, request, whole

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

SAMPLED = {"temperature": 0.8, "seed": 7, "frequency_penalty": 0.3}
GREEDY = {"temperature": 0.0}
HOLD_AT = 20


async def test_a_held_request_goes_on_bit_for_bit(engine: Engine) -> None:
    undisturbed = await whole(engine, request("undisturbed", "Write about rivers.", **SAMPLED))

    held = Stream(engine, request("held", "Write about rivers.", **SAMPLED))
    await held.reach(HOLD_AT)
    await engine.hold("held")
    other = Stream(engine, request("other", "Count to a hundred in words.", **GREEDY))
    await other.task
    made_while_held = len(held.token_ids)
    await engine.release("held")
    await held.task

    # A step may have been under way when the hold came.
    assert HOLD_AT <= made_while_held <= HOLD_AT + 3
    assert held.token_ids == undisturbed.token_ids
    assert held.text == undisturbed.text


async def test_nothing_spins_while_only_held_requests_are_left(engine: Engine) -> None:
    held = Stream(engine, request("idle", "Tell me a story.", **GREEDY))
    await held.reach(5)
    await engine.hold("idle")
    # vLLM's worker looks for work for a second before it sleeps.
    await asyncio.sleep(2)
    children = psutil.Process().children(recursive=True)
    before = {child.pid: sum(child.cpu_times()[:2]) for child in children}
    await asyncio.sleep(2)
    spent = [sum(child.cpu_times()[:2]) - before[child.pid] for child in children]
    await engine.release("idle")
    await held.task
    assert max(spent) < 1.0, "a process of the engine was busy for half of the time or more"


async def test_a_held_request_can_be_aborted(engine: Engine) -> None:
    held = Stream(engine, request("aborted", "Write about rivers.", max_tokens=500, **GREEDY))
    await held.reach(3)
    await engine.hold("aborted")
    await engine.abort("aborted")
    await held.task

    assert held.finish_reason == "cancelled"
    assert engine.load().running == 0


async def test_holding_what_is_not_there_changes_nothing(engine: Engine) -> None:
    ended = await whole(engine, request("ended", "Say hi.", max_tokens=2, **GREEDY))
    for generation_id in ("ended", "never"):
        await engine.hold(generation_id)
        await engine.release(generation_id)
    after = await whole(engine, request("after", "Say hi.", max_tokens=2, **GREEDY))
    assert after.token_ids == ended.token_ids


CYCLES = 200
ASKED: dict[str, dict[str, object]] = {
    "sampled": SAMPLED | {"prompt": "Write about rivers."},
    "greedy": GREEDY | {"prompt": "Tell me a story.", "min_tokens": 60},
    "grammar": GREEDY | {"prompt": "Describe a river as JSON.", "json_schema": json.dumps(SCHEMA)},
}


async def test_two_hundred_holds_at_random_change_nothing(engine: Engine) -> None:
    """Of sampled, greedy and structured answers at once, some held or released twice."""
    undisturbed = {name: await whole(engine, asking(name)) for name in ASKED}
    chance, holds, rounds = random.Random(7), 0, 0  # noqa: S311 - the same each time
    while holds < CYCLES:
        rounds += 1
        streams = {name: Stream(engine, asking(name, rounds)) for name in ASKED}
        await asyncio.gather(*(stream.reach(1) for stream in streams.values()))
        held: set[str] = set()
        while holds < CYCLES and any(not each.task.done() for each in streams.values()):
            holds += await hold_or_release(engine, chance, streams, held)
        for name in held:
            await engine.release(streams[name].request.generation_id)
        for name, stream in streams.items():
            await stream.task
            assert stream.token_ids == undisturbed[name].token_ids, (name, rounds)
            assert stream.text == undisturbed[name].text, (name, rounds)
    assert json.loads(undisturbed["grammar"].text).keys() == {"river", "length", "towns"}


def asking(name: str, turn: int = 0) -> EngineRequest:
    return request(f"{name}-{turn}", **ASKED[name])  # type: ignore[arg-type]


async def hold_or_release(
    engine: Engine, chance: random.Random, streams: dict[str, Stream], held: set[str]
) -> int:
    """One of them, the other way than it is; how many were held by that."""
    name = chance.choice([name for name in streams if not streams[name].task.done()])
    act = engine.release if name in held else engine.hold
    for _ in range(chance.choice((1, 1, 2))):
        await act(streams[name].request.generation_id)
    held ^= {name}
    return int(name in held)
