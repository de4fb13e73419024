"""Runs a simulated engine on the production queue, in simulated time.

The queue's scripts run unchanged in a real Valkey; this only tells them what time it is. A host is
played as the real one is built: it takes a request only when it has room for it, and charges what
its generations have made every `CHARGE_EVERY_S`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.simulated_engine import ADAPTER_TOKENS, STEPS_BETWEEN, Running, SimulatedEngine
from benchmarks.workloads import Arrival
from inference import queue, redis_keys
from inference.engine.protocol import EngineRequest, Sampling
from inference.host.charging import CHARGE_EVERY_S
from inference.messages import QueuedRequest
from inference.queue import Charge
from kernel.redis import Client

RELEASE, INCARNATION = "rel_simulated", "inc_simulated"
BEGINNING_S = 1_900_000_000
MOST_TOKENS = 1024


@dataclass(slots=True)
class Served:
    """One request's life, in seconds since the beginning; first_token_s, end_s: -1 until then"""

    arrival: Arrival
    request: QueuedRequest
    taken_s: float = -1
    first_token_s: float = -1
    end_s: float = -1
    charged: int = 0

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.arrival.at_s


@dataclass(slots=True)
class Simulation:
    """lift: False leaves tenants that come back what they had saved up, to show what lifting is for
    one_line: everybody as one tenant, which is first come first served
    observer: called after each step of the engine
    """

    redis: Client
    lift: bool = True
    one_line: bool = False
    observer: Callable[[Simulation], Awaitable[None]] | None = None
    engine: SimulatedEngine = field(default_factory=SimulatedEngine)
    now_s: float = 0
    served: dict[str, Served] = field(default_factory=dict)
    ended: list[Running] = field(default_factory=list)
    _uncharged: dict[str, Running] = field(default_factory=dict)
    _charged_s: float = 0
    _steps: int = 0

    @property
    def now_us(self) -> int:
        return round((BEGINNING_S + self.now_s) * 1_000_000)

    async def run(self, arrivals: Sequence[Arrival]) -> list[Served]:
        """Until everything has been answered."""
        await self.redis.flushall()
        tenants = len({each.tenant for each in arrivals})
        self.engine.pool_tokens -= ADAPTER_TOKENS * tenants
        coming = sorted(arrivals, key=lambda each: each.at_s, reverse=True)
        done = 0
        while done < len(arrivals):
            while coming and coming[-1].at_s <= self.now_s:
                await self._arrive(coming.pop())
            if not await self._let_in():
                if not self.engine.running:
                    self.now_s = max(self.now_s, coming[-1].at_s)
                    continue
                self._decode()
            done += self._end()
            await self._charge()
            if self.observer:
                await self.observer(self)
        return list(self.served.values())

    async def _arrive(self, arrival: Arrival) -> None:
        number = len(self.served)
        tenant = "ten_all" if self.one_line else arrival.tenant
        request = QueuedRequest(
            tenant_id=tenant,
            release_id=RELEASE,
            engine_request=EngineRequest(
                generation_id=f"gen_{number:06}",
                prompt_token_ids=[1] * arrival.prompt_tokens,
                sampling=Sampling(max_tokens=MOST_TOKENS),
                cache_salt=tenant,
            ),
            admitted_at=BEGINNING_S + arrival.at_s,
            high_water_tokens=MOST_TOKENS,
            priority_class=arrival.priority_class,
            weight=arrival.weight,
        )
        self.served[request.generation_id] = Served(arrival, request)
        if self.lift:
            await queue.enqueue(self.redis, request, now_us=self.now_us)
        else:
            await self._enqueue_unlifted(request)

    async def _enqueue_unlifted(self, request: QueuedRequest) -> None:
        of_class = f"{redis_keys.share(RELEASE)}:{request.priority_class}"
        before = await self.redis.zscore(f"{of_class}:counters", request.tenant_id) or 0
        waited = await self.redis.zscore(f"{of_class}:waiting", request.tenant_id)
        await queue.enqueue(self.redis, request, now_us=self.now_us)
        if waited is None:
            for books in ("counters", "waiting"):
                await self.redis.zadd(f"{of_class}:{books}", {request.tenant_id: before})

    async def _let_in(self) -> bool:
        """Take what there is room for, if it is time to look."""
        if self.engine.running and self._steps < STEPS_BETWEEN:
            return False
        while request := await queue.claim(
            self.redis, RELEASE, INCARNATION, takes=self._fits, now_us=self.now_us
        ):
            served = self.served[request.generation_id]
            served.taken_s = self.now_s
            size = served.arrival.prompt_tokens, served.arrival.output_tokens
            running = self._uncharged[request.generation_id] = Running(request.generation_id, *size)
            self.engine.let_in(running)
        if not self.engine.coming:
            return False
        new = list(self.engine.coming)
        self.now_s += self.engine.prefill()
        for each in new:
            self.served[each.generation_id].first_token_s = self.now_s
        self._steps = 0
        return True

    def _fits(self, request: QueuedRequest) -> bool:
        arrival = self.served[request.generation_id].arrival
        return self.engine.fits(arrival.prompt_tokens, arrival.output_tokens)

    def _decode(self) -> None:
        self.now_s += self.engine.decode()
        self._steps += 1

    def _end(self) -> int:
        ended = self.engine.ended()
        for each in ended:
            self.served[each.generation_id].end_s = self.now_s
            self.ended.append(each)
        return len(ended)

    async def _charge(self) -> None:
        if self.now_s < self._charged_s + CHARGE_EVERY_S:
            return
        self._charged_s = self.now_s
        charges = []
        for generation_id, running in list(self._uncharged.items()):
            served = self.served[generation_id]
            if running.made > served.charged:
                charges.append(Charge(served.request, served.charged, running.made))
                served.charged = running.made
            if running.left <= 0:
                del self._uncharged[generation_id]
        if charges:
            await queue.charge(self.redis, RELEASE, charges, now_us=self.now_us)
