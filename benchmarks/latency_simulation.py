"""A replica with a latency objective, in simulated time: the production queue, the production limit
on what runs, and an engine that only keeps time.

Its pace is made up, near that of a model of some ten billion parameters on one GPU: steps take
longer with each request, with what they keep in the KV cache, and with the part of a prompt that is
computed beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.simulated_engine import Running, SimulatedEngine
from benchmarks.simulation import INCARNATION, RELEASE, Simulation
from inference import queue, registry
from inference.host.concurrency import Concurrency
from inference.messages import ReplicaRecord
from inference.objectives import Objectives
from tenants.priority import PriorityClass

SLOTS = 64
STEP_S, STEP_PER_REQUEST_S, STEP_PER_KV_TOKEN_S = 15e-3, 0.6e-3, 1e-6
CHUNK_TOKENS, PREFILL_PER_TOKEN_S = 128, 0.05e-3
HEARTBEAT_S = 0.4


@dataclass(slots=True)
class ChunkedEngine(SimulatedEngine):
    """Prompts are computed beside what decodes, so many tokens a step.

    unread: by generation, how much of its prompt is still to be computed
    """

    unread: dict[str, int] = field(default_factory=dict)

    def let_in(self, running: Running) -> None:
        self.running.append(running)
        self.unread[running.generation_id] = running.prompt_tokens

    def step(self) -> tuple[float, list[Running]]:
        """Seconds, and what has a token more then."""
        left = CHUNK_TOKENS
        for generation_id, unread in list(self.unread.items()):
            taken = min(left, unread)
            left -= taken
            self.unread[generation_id] = unread - taken
        delivered = [each for each in self.running if not self.unread.get(each.generation_id)]
        for each in delivered:
            self.unread.pop(each.generation_id, None)
            each.made += 1
        kv_tokens = sum(each.prompt_tokens + each.made for each in self.running)
        took_s = STEP_S + STEP_PER_REQUEST_S * len(delivered) + STEP_PER_KV_TOKEN_S * kv_tokens
        return took_s + PREFILL_PER_TOKEN_S * (CHUNK_TOKENS - left), delivered


@dataclass(frozen=True, slots=True)
class Gap:
    """between two tokens of one answer; at_s: of the second"""

    at_s: float
    gap_s: float
    priority_class: PriorityClass


@dataclass(slots=True)
class LatencySimulation(Simulation):
    """objectives: none, and all slots are used
    gaps, limits: what was delivered; (seconds, how many might run, how many did) at each heartbeat
    """

    engine: ChunkedEngine = field(default_factory=ChunkedEngine)
    objectives: Objectives = field(default_factory=Objectives)
    concurrency: Concurrency = field(default_factory=Concurrency)
    gaps: list[Gap] = field(default_factory=list)
    limits: list[tuple[float, int, int]] = field(default_factory=list)
    _token_at: dict[str, float] = field(default_factory=dict)
    _beat_s: float = 0.0

    async def _let_in(self) -> bool:
        """Whatever may join is in the next step; one that is next and may not, everybody waits."""
        self.concurrency.objectives = self.objectives
        await self._beat()
        while rooms := self.concurrency.room(self._classes(), slots=SLOTS, now=self.now_s):
            request = await queue.claim(
                self.redis, RELEASE, INCARNATION, classes=tuple(rooms), now_us=self.now_us
            )
            if request is None:
                if len(rooms) < 3 and (waits := await queue.next_class(self.redis, RELEASE)):
                    self.concurrency.waits(waits, now=self.now_s)
                break
            served = self.served[request.generation_id]
            served.taken_s = self.now_s
            size = served.arrival.prompt_tokens, served.arrival.output_tokens
            running = self._uncharged[request.generation_id] = Running(request.generation_id, *size)
            self.engine.let_in(running)
        return False

    def _decode(self) -> None:
        took_s, delivered = self.engine.step()
        self.now_s += took_s
        for each in delivered:
            name, served = each.generation_id, self.served[each.generation_id]
            if (last := self._token_at.get(name)) is None:
                served.first_token_s = self.now_s
            else:
                self.concurrency.delivered(self.now_s - last, now=self.now_s)
                gap = Gap(self.now_s, self.now_s - last, served.arrival.priority_class)
                self.gaps.append(gap)
            self._token_at[name] = self.now_s

    async def _beat(self) -> None:
        """What the host tells of itself, which forecasts look at."""
        if self.now_s < self._beat_s:
            return
        self._beat_s = self.now_s + HEARTBEAT_S
        running = self._classes()
        limit = self.concurrency.limit(running, slots=SLOTS, now=self.now_s)
        record = ReplicaRecord(
            "simulated",
            INCARNATION,
            RELEASE,
            "simulated",
            "ready",
            running=len(running),
            slots=SLOTS,
            limit=limit,
            limit_tokens_per_s=self.concurrency.tokens_per_s(limit) or 0.0,
        )
        await registry.renew(self.redis, record, timeout_s=3600)
        self.limits.append((self.now_s, limit, len(running)))

    def _classes(self) -> list[PriorityClass]:
        return [
            self.served[each.generation_id].arrival.priority_class for each in self.engine.running
        ]


def p95_ms(gaps: Sequence[Gap]) -> float:
    ordered = sorted(each.gap_s for each in gaps)
    return 1000 * ordered[int(0.95 * len(ordered))] if ordered else 0.0


def by_time(gaps: Sequence[Gap], *, every_s: float) -> list[tuple[float, float]]:
    """The p95 in milliseconds of each such span, in which there were any."""
    spans: dict[int, list[Gap]] = defaultdict(list)
    for each in gaps:
        spans[int(each.at_s // every_s)].append(each)
    return [(span * every_s, p95_ms(found)) for span, found in sorted(spans.items())]
