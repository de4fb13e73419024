"""One request's answer straight from an engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tokenizers

from inference.engine.protocol import Engine, EngineRequest, FinishReason, Sampling
from tests.environment import MODELS

MODEL = Path(MODELS) / "smollm2-135m-instruct"
# Whatever fits it is short.
SCHEMA = {
    "type": "object",
    "properties": {
        "river": {"type": "string", "maxLength": 20},
        "length": {"type": "integer", "minimum": 100, "maximum": 999},
        "towns": {
            "type": "array",
            "items": {"type": "string", "maxLength": 12},
            "minItems": 2,
            "maxItems": 3,
        },
    },
    "required": ["river", "length", "towns"],
    "additionalProperties": False,
}


class Stream:
    """One request's answer, read in a task: its tokens and text as they come."""

    def __init__(
        self,
        engine: Engine,
        request: EngineRequest,
        *,
        made: list[int] | None = None,
        told: str = "",
    ) -> None:
        """made, told: tokens that were made elsewhere, and what of them was told"""
        self._deltas = engine.restore(request, made, told) if made else engine.submit(request)
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


def request(name: str, prompt: str, *, max_tokens: int = 60, **sampling: object) -> EngineRequest:
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    how = Sampling(max_tokens=max_tokens, **sampling)  # type: ignore[arg-type]
    return EngineRequest(name, tokenizer.encode(text).ids, how, cache_salt=name)


async def whole(engine: Engine, asked: EngineRequest) -> Stream:
    stream = Stream(engine, asked)
    await stream.task
    return stream
