"""Holding, letting go on and restoring single requests inside real vLLM.

In float32: in bf16 greedy text depends on what else is in the batch.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import tokenizers

from inference.engine.factory import vllm_engine
from inference.engine.protocol import Engine, EngineRequest, FinishReason, Sampling
from tests.environment import MODELS, ROOT

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

MODEL = Path(MODELS) / "smollm2-135m-instruct"
SAMPLED = {"temperature": 0.8, "seed": 7, "frequency_penalty": 0.3}
GREEDY = {"temperature": 0.0}
HOLD_AT = 20


class Stream:
    """One request's answer, read in a task: its tokens and text as they come."""

    def __init__(
        self, engine: Engine, request: EngineRequest, *, made: list[int] | None = None
    ) -> None:
        self._deltas = engine.restore(request, made) if made else engine.submit(request)
        self.request = request
        self.token_ids: list[int] = []
        self.text = ""
        self.finish_reason: FinishReason | None = None
        self._moved = asyncio.Event()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for delta in self._deltas:
            self.token_ids += delta.token_ids
            self.text += delta.text
            self.finish_reason = delta.finish_reason
            self._moved.set()

    async def reach(self, tokens: int) -> None:
        while len(self.token_ids) < tokens:
            self._moved.clear()
            await self._moved.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    roots = os.pathsep.join((str(ROOT / "platform"), str(ROOT)))
    prepare = [sys.executable, str(ROOT / "manage.py"), "prepare_model"]
    await asyncio.to_thread(subprocess.run, prepare, check=True)
    with pytest.MonkeyPatch.context() as patch:
        # The scheduler is imported by name in vLLM's own process.
        patch.setenv("PYTHONPATH", roots)
        vllm = vllm_engine(
            MODEL, context_tokens=1024, arguments={"dtype": "float32"}, kv_cache_gib=1
        )
        await vllm.start()
        yield vllm
        await vllm.stop()


def request(name: str, prompt: str, *, max_tokens: int = 60, **sampling: object) -> EngineRequest:
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    how = Sampling(max_tokens=max_tokens, **sampling)  # type: ignore[arg-type]
    return EngineRequest(name, tokenizer.encode(text).ids, how, cache_salt=name)


async def whole(engine: Engine, asked: EngineRequest) -> Stream:
    stream = Stream(engine, asked)
    await stream.task
    return stream


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


async def test_a_greedy_answer_is_restored_from_its_tokens(engine: Engine) -> None:
    first = await whole(engine, request("first", "Explain rain.", **GREEDY))
    half = len(first.token_ids) // 2
    rest = Stream(engine, request("rest", "Explain rain.", **GREEDY), made=first.token_ids[:half])
    await rest.task

    assert first.token_ids[:half] + rest.token_ids == first.token_ids
    assert first.text.endswith(rest.text)
    assert rest.finish_reason == first.finish_reason


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
