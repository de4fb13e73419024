"""KV blocks or slots run short in real vLLM while requests are held: of 12 blocks of 32 tokens, and
four slots.
"""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from inference.engine.protocol import Engine, EngineRequest
from tests.model.streams import Stream, request, whole

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

GREEDY = {"temperature": 0.0}
SAMPLED = {"temperature": 0.8, "seed": 7, "frequency_penalty": 0.3}
RIVERS = "Write about rivers."
COUNT = "Count to a hundred in words."


def asking(name: str, prompt: str = RIVERS, *, max_tokens: int = 70) -> EngineRequest:
    how = SAMPLED if prompt == RIVERS else GREEDY
    return request(name, prompt, max_tokens=max_tokens, min_tokens=max_tokens, **how)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def undisturbed(small_engine: Engine) -> list[int]:
    """What each of the held ones is to come to."""
    return (await whole(small_engine, asking("undisturbed"))).token_ids


async def held_at(engine: Engine, tokens: int, *names: str) -> list[Stream]:
    """Streams that are held once each has made so many tokens."""
    streams = [Stream(engine, asking(name)) for name in names]
    for stream in streams:
        await stream.reach(tokens)
        await engine.hold(stream.request.generation_id)
    return streams


async def released(engine: Engine, streams: list[Stream]) -> list[list[int]]:
    """What they made in all, once they may go on."""
    for stream in streams:
        await engine.release(stream.request.generation_id)
    await asyncio.gather(*(stream.task for stream in streams))
    return [stream.token_ids for stream in streams]


async def test_held_requests_make_room_for_running_ones(
    small_engine: Engine, undisturbed: list[int]
) -> None:
    alone = await whole(small_engine, asking("alone", COUNT, max_tokens=110))
    held = await held_at(small_engine, 55, "held-1", "held-2")
    kept = sum((await small_engine.held_shares()).values())
    assert kept == 0.5
    before = await small_engine.kv_cache()
    assert before.used_blocks == 6
    others = [Stream(small_engine, asking(f"other-{n}", COUNT, max_tokens=110)) for n in range(2)]
    await asyncio.gather(*(other.task for other in others))
    assert [other.token_ids for other in others] == [alone.token_ids] * 2
    assert sum((await small_engine.held_shares()).values()) < kept, "one was preempted"
    told = await small_engine.kv_cache()
    assert (told.total_blocks, told.block_tokens) == (12, 32)
    assert told.preemptions > before.preemptions
    assert 0 < told.used_blocks < before.used_blocks
    assert await released(small_engine, held) == [undisturbed] * 2


async def test_held_requests_make_room_for_waiting_ones(
    small_engine: Engine, undisturbed: list[int]
) -> None:
    """Nobody runs: a waiting request preempts nobody in vLLM itself."""
    held = await held_at(small_engine, 55, "full-1", "full-2", "full-3")
    long = "Tell me what this says. " + "Rain falls on the hills and runs to the river. " * 20
    waiting = Stream(small_engine, request("long", long, max_tokens=20, **GREEDY))
    await waiting.task
    assert len(waiting.token_ids) > 0
    assert await released(small_engine, held) == [undisturbed] * 3


async def test_held_requests_have_no_slots(small_engine: Engine, undisturbed: list[int]) -> None:
    """So many others run meanwhile as there are slots; and those held keep their blocks."""
    held = await held_at(small_engine, 5, "slot-1", "slot-2", "slot-3", "slot-4")
    kept = await small_engine.held_shares()
    others = [Stream(small_engine, asking(f"waiting-{n}", COUNT, max_tokens=5)) for n in range(4)]
    await asyncio.gather(*(other.task for other in others))
    assert await small_engine.held_shares() == kept
    assert await released(small_engine, held) == [undisturbed] * 4


async def test_a_small_block_is_enough_to_hit_the_cache_of_the_own_tenant_alone(
    small_engine: Engine,
) -> None:
    prompt = (
        "One tenant's rules, in a prompt of more than one block of tokens: answer politely, in one "
        "short sentence, name no names, give no figures, and say so if you do not know. Go on."
    )
    cached = [
        await cached_tokens(small_engine, request(salt, prompt, max_tokens=2, **GREEDY), turn)
        for turn, salt in enumerate(("acme", "acme", "globex"))
    ]
    assert cached[0] == 0
    assert cached[1] > 0
    assert cached[1] % 32 == 0
    assert cached[2] == 0


async def cached_tokens(engine: Engine, asked: EngineRequest, turn: int) -> int:
    again = EngineRequest(
        f"{asked.generation_id}-{turn}", asked.prompt_token_ids, asked.sampling, asked.cache_salt
    )
    return sum([delta.cached_tokens async for delta in engine.submit(again)])
