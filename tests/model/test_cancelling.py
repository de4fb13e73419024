"""A request is cancelled in real vLLM, in every state that it can be in; nothing of it stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from inference.engine.protocol import Engine, EngineError, EngineRequest, Load
from tests.model.streams import Stream, request

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

SLOTS, CONTEXT = 4, 320
# Four chunks of 64 tokens.
LONG = "Tell me what this says. " + "Rain falls on the hills and runs to the river. " * 20


def asking(name: str, prompt: str = "Write about rivers.", *, tokens: int = 60) -> EngineRequest:
    return request(name, prompt, max_tokens=tokens, min_tokens=tokens, temperature=0.0)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _empty_afterwards(small_engine: Engine) -> AsyncIterator[None]:
    """And whoever comes next is answered."""
    yield
    assert small_engine.load() == Load(0, 0)
    assert await small_engine.held_shares() == {}
    after = Stream(small_engine, asking("after", tokens=2))
    await after.task
    assert len(after.token_ids) == 2


async def cancelled(engine: Engine, *streams: Stream) -> None:
    for stream in streams:
        await engine.abort(stream.request.generation_id)
    await asyncio.gather(*(stream.task for stream in streams))
    assert {stream.finish_reason for stream in streams} == {"cancelled"}


async def test_while_it_waits_in_the_engine(small_engine: Engine) -> None:
    running = [Stream(small_engine, asking(f"running-{n}")) for n in range(SLOTS)]
    for stream in running:
        await stream.reach(1)
    queued = Stream(small_engine, asking("queued"))
    await has_come(small_engine)
    assert small_engine.load() == Load(SLOTS, 1, len(queued.request.prompt_token_ids))
    await cancelled(small_engine, queued)
    assert queued.token_ids == []
    await cancelled(small_engine, *running)


async def test_in_the_middle_of_its_prompt(small_engine: Engine) -> None:
    prefilling = Stream(small_engine, asking("prefilling", LONG))
    await has_come(small_engine)
    assert prefilling.token_ids == []
    await cancelled(small_engine, prefilling)


async def test_while_it_decodes(small_engine: Engine) -> None:
    decoding = Stream(small_engine, asking("decoding"))
    await decoding.reach(3)
    await cancelled(small_engine, decoding)
    assert 3 <= len(decoding.token_ids) < 60


async def test_while_it_is_held_and_once_it_was_preempted(small_engine: Engine) -> None:
    held = [Stream(small_engine, asking(f"held-{n}")) for n in range(SLOTS)]
    for stream in held:
        await stream.reach(20)
        await small_engine.hold(stream.request.generation_id)
    # It takes the blocks of one of them at least.
    other = Stream(small_engine, asking("other", LONG, tokens=2))
    await other.task
    assert sorted((await small_engine.held_shares()).values())[0] == 0
    await cancelled(small_engine, *held)


async def test_held_before_it_has_begun(small_engine: Engine) -> None:
    early = Stream(small_engine, asking("early", LONG))
    await has_come(small_engine)
    await small_engine.hold("early")
    await cancelled(small_engine, early)


async def test_while_it_is_being_restored(small_engine: Engine) -> None:
    first = Stream(small_engine, asking("restored"))
    await first.task
    made = first.token_ids[:40]
    again = Stream(small_engine, asking("restored-again", LONG), made=made)
    await has_come(small_engine)
    assert again.token_ids == []
    await cancelled(small_engine, again)


async def test_what_no_longer_fits_into_the_context_fails_alone(small_engine: Engine) -> None:
    """As when a release's context was made smaller while it waited to be restored."""
    asked = asking("too-long", LONG, tokens=200)
    room = CONTEXT - len(asked.prompt_token_ids)
    with pytest.raises(EngineError, match=str(CONTEXT)):
        await Stream(small_engine, asked, made=[1] * room).task


async def has_come(engine: Engine) -> None:
    """What was submitted last is known to EngineCore: it answers in order."""
    # The reading task hands it over in its first step.
    await asyncio.sleep(0)
    while not engine.load().waiting:
        await asyncio.sleep(0)
    await engine.held_shares()
