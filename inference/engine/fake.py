"""A deterministic engine without a model: the same prompt gives the same words at the same pace.

For tests and for measuring what the platform adds. Never a default.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from inference.engine.classes import Claimant, Debts, State, seats
from inference.engine.protocol import (
    LOWEST_RANK,
    Capabilities,
    Delta,
    EngineDead,
    EngineRequest,
    FinishReason,
    KVCache,
    Load,
    Unsupported,
    Yielded,
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
# As vLLM's on a GPU.
BLOCK_TOKENS = 16

Now = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Running:
    """arrival: counted; state: of its slot; go: set while it has one and isn't held"""

    prefill_tokens: int
    rank: int
    arrival: int
    made_tokens: int = 0
    decoding: bool = False
    held: bool = False
    promoted: bool = False
    state: State = "waiting"
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tokens(self) -> int:
        return self.prefill_tokens + self.made_tokens


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
    capabilities = Capabilities(hold=True, restore=True, yields=True, kv_cache=True)

    def __init__(
        self,
        *,
        ttft_s: float,
        itl_s: float,
        itl_per_request_s: float = 0.0,
        now: Now | None = None,
        sleep: Sleep = asyncio.sleep,
        kv_cache_tokens: int = 1_000_000,
        slots: int = 1_000_000,
        class_floor: float = 0.0,
    ) -> None:
        """ttft_s: seconds to the first token; itl_s: seconds between tokens, and itl_per_request_s
        more for each request that is decoding; now and sleep: a clock of the test's own;
        kv_cache_tokens: what its KV cache would hold; slots: how many make tokens at once;
        class_floor: of the tokens of the classes above, what a class that waits gets at least.
        """
        self._ttft_s = ttft_s
        self._itl_s = itl_s
        self._itl_per_request_s = itl_per_request_s
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._kv_cache_tokens = kv_cache_tokens
        self._slots = self._most_slots = slots
        self._debts = Debts(class_floor)
        self._arrivals = 0
        # somebody has no slot
        self._crowded = False
        # tokens of each rank since the last step that debts were reckoned after
        self._step: Counter[int] = Counter()
        self._times_parked = 0
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
        if request.sampling.json_schema is not None:
            raise Unsupported("Words can't be kept to a schema.")
        prefill = len(request.prompt_token_ids) + len(output_token_ids)
        self._arrivals += 1
        running = _Running(prefill, request.rank, self._arrivals)
        self._running[request.generation_id] = running
        self._comes_or_goes_on(running)
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
                self._served(running)
                yield self._delta(request, position, last)
                itl_s = self._step_s()
                due = max(due, self._now() - itl_s) + itl_s
        finally:
            self._running.pop(request.generation_id, None)
            if self._crowded:
                self._share_out()

    # -- Slots: as `classes.py` says, and only where there are not enough

    def _comes_or_goes_on(self, running: _Running) -> None:
        if self._crowded or len(self._running) > self._slots:
            self._share_out()
        else:
            running.state = "active"
        self._let_go(running)

    def _share_out(self) -> None:
        found = {name: each for name, each in self._running.items() if not each.held}
        promoted = Counter(each.rank for each in found.values() if each.promoted)
        claimants = [
            Claimant(name, each.rank, each.arrival, each.state, each.promoted)
            for name, each in found.items()
        ]
        change = seats(self._slots, claimants, self._debts.due(promoted))
        self._times_parked += len(change.park)
        for name in change.promote:
            found[name].promoted = True
        for name in change.park:
            found[name].state = "parked"
        for name in (*change.resume, *change.begin):
            found[name].state = "active"
        for each in found.values():
            self._let_go(each)
        self._crowded = any(each.state != "active" for each in found.values())

    def _let_go(self, running: _Running) -> None:
        goes = running.state == "active" and not running.held
        if goes or running.cancelled.is_set() or self._dead:
            running.go.set()
        else:
            running.go.clear()

    def _served(self, running: _Running) -> None:
        """As many tokens as there are slots are a step."""
        if not self._crowded:
            return
        self._step[running.rank] += 1
        if self._step.total() < self._slots:
            return
        wanting = [each for each in self._running.values() if not each.held]
        waiting = {each.rank for each in wanting if each.state != "active"}
        self._debts.note(self._step, waiting, {each.rank for each in wanting})
        self._step.clear()
        for each in wanting:
            each.promoted = each.promoted and self._debts.owes(each.rank)
        self._share_out()

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
            running.held, running.promoted = True, False
            self._let_go(running)
            if self._crowded:
                self._share_out()

    async def release(self, generation_id: str) -> None:
        running = self._running.get(generation_id)
        if running and running.held:
            running.held = False
            if running.state == "active":
                running.state = "parked"
            self._comes_or_goes_on(running)

    async def held_shares(self) -> dict[str, float]:
        held = {name: each for name, each in self._running.items() if each.held}
        return {name: each.tokens / self._kv_cache_tokens for name, each in held.items()}

    async def kv_cache(self) -> KVCache:
        """Whole blocks, as of an engine that gives them out one by one."""
        used = sum(-(-each.tokens // BLOCK_TOKENS) for each in self._running.values())
        return KVCache(used, self._kv_cache_tokens // BLOCK_TOKENS, BLOCK_TOKENS)

    async def limit(self, requests: int | None) -> None:
        self._slots = self._most_slots if requests is None else min(requests, self._most_slots)
        self._share_out()

    async def yielded(self) -> Yielded:
        parked = [
            name for name, each in self._running.items() if each.state == "parked" and not each.held
        ]
        return Yielded(self._times_parked, frozenset(parked))

    def load(self, *, lowest_rank: int = LOWEST_RANK) -> Load:
        found = [each for each in self._running.values() if each.rank <= lowest_rank]
        prefilling = [each.prefill_tokens for each in found if not each.decoding]
        running = len(found) - len(prefilling)
        return Load(running, waiting=len(prefilling), waiting_tokens=sum(prefilling))

    async def health(self) -> None:
        if self._dead:
            raise EngineDead("The fake engine was stopped.")
