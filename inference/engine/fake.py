"""A deterministic engine without a model: the same prompt gives the same words at the same pace.

For tests and for measuring what the platform adds. Never a default.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from inference.engine.protocol import (
    Capabilities,
    Delta,
    EngineDead,
    EngineRequest,
    FinishReason,
    Load,
)

WORDS = [
    "river",
    "water",
    "stone",
    "bank",
    "bridge",
    "current",
    "reed",
    "mill",
    "boat",
    "delta",
    "source",
    "valley",
    "rain",
    "spring",
    "estuary",
    "meander",
    "nehir",
    "su",
    "taş",
    "kıyı",
    "köprü",
    "akıntı",
    "saz",
    "değirmen",
    "kayık",
    "kaynak",
    "vadi",
    "yağmur",
    "pınar",
    "çağlayan",
    "göl",
    "deniz",
]
# Longer than a short answer, shorter than patience: 256 tokens at 20 ms are five seconds.
ANSWER_TOKENS = 256
# How long an abort may go unnoticed.
NAP_S = 0.25

Now = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Running:
    prefill_tokens: int
    made_tokens: int = 0
    decoding: bool = False
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


def word(prompt_token_ids: list[int], position: int) -> tuple[int, str]:
    """Token id and text of the answer's token at `position` (from 0)."""
    digest = zlib.crc32(repr((prompt_token_ids, position)).encode())
    token_id = digest % len(WORDS)
    return token_id, WORDS[token_id] + (". " if position % 12 == 11 else " ")


def _reason(made: int, last: int) -> FinishReason | None:
    if made < last:
        return None
    return "stop" if last == ANSWER_TOKENS else "length"


class FakeEngine:
    capabilities = Capabilities(hold=True, restore=True)

    def __init__(
        self,
        *,
        ttft_s: float,
        itl_s: float,
        itl_per_request_s: float = 0.0,
        now: Now | None = None,
        sleep: Sleep = asyncio.sleep,
        kv_cache_tokens: int = 1_000_000,
    ) -> None:
        """ttft_s: seconds to the first token; itl_s: seconds between tokens, and itl_per_request_s
        more for each request that is decoding; now and sleep: a clock of the test's own;
        kv_cache_tokens: what its KV cache would hold.
        """
        self._ttft_s = ttft_s
        self._itl_s = itl_s
        self._itl_per_request_s = itl_per_request_s
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._kv_cache_tokens = kv_cache_tokens
        self._running: dict[str, _Running] = {}
        self._dead = False

    async def start(self) -> None:
        self._dead = False

    async def stop(self) -> None:
        self._dead = True
        for running in self._running.values():
            running.go.set()

    def submit(self, request: EngineRequest) -> AsyncGenerator[Delta, None]:
        return self.restore(request, [], "")

    async def restore(
        self, request: EngineRequest, output_token_ids: list[int], text: str
    ) -> AsyncGenerator[Delta, None]:
        running = self._running[request.generation_id] = _Running(
            len(request.prompt_token_ids) + len(output_token_ids)
        )
        running.go.set()
        due = self._now() + self._ttft_s
        made, last = len(output_token_ids), min(request.sampling.max_tokens, ANSWER_TOKENS)
        untold = self._text(request, made)[len(text) :]
        try:
            if made >= last or untold:
                await self._until(due, running)
                yield Delta(untold, (), _reason(made, last))
            for position in range(made, last):
                await self._until(due, running)
                if running.cancelled.is_set():
                    yield Delta("", (), "cancelled")
                    return
                running.decoding = True
                running.made_tokens += 1
                yield self._delta(request, position, last)
                itl_s = self._step_s()
                due = max(due, self._now() - itl_s) + itl_s
        finally:
            self._running.pop(request.generation_id, None)

    def _step_s(self) -> float:
        if not self._itl_per_request_s:
            return self._itl_s
        decoding = sum(each.decoding and each.go.is_set() for each in self._running.values())
        return self._itl_s + self._itl_per_request_s * decoding

    async def _until(self, due: float, running: _Running) -> None:
        await running.go.wait()
        while (remaining := due - self._now()) > 0 and not running.cancelled.is_set():
            await self._sleep(min(remaining, NAP_S))
        await running.go.wait()
        if self._dead:
            raise EngineDead("The fake engine was stopped.")

    def _delta(self, request: EngineRequest, position: int, last: int) -> Delta:
        token_id, text = word(request.prompt_token_ids, position)
        return Delta(text, (token_id,), _reason(position + 1, last))

    def _text(self, request: EngineRequest, tokens: int) -> str:
        return "".join(word(request.prompt_token_ids, position)[1] for position in range(tokens))

    async def abort(self, generation_id: str) -> None:
        if running := self._running.get(generation_id):
            running.cancelled.set()
            running.go.set()

    async def hold(self, generation_id: str) -> None:
        if running := self._running.get(generation_id):
            running.go.clear()

    async def release(self, generation_id: str) -> None:
        if running := self._running.get(generation_id):
            running.go.set()

    async def held_shares(self) -> dict[str, float]:
        held = {name: each for name, each in self._running.items() if not each.go.is_set()}
        return {
            name: (each.prefill_tokens + each.made_tokens) / self._kv_cache_tokens
            for name, each in held.items()
        }

    def load(self) -> Load:
        prefilling = [each.prefill_tokens for each in self._running.values() if not each.decoding]
        running = len(self._running) - len(prefilling)
        return Load(running, waiting=len(prefilling), waiting_tokens=sum(prefilling))

    async def health(self) -> None:
        if self._dead:
            raise EngineDead("The fake engine was stopped.")
