"""Tenants, hosts and a clock around the real queue, with books of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from django.conf import settings

from inference import queue, redis_keys
from inference.engine.protocol import EngineRequest, Sampling
from inference.messages import Finished, Progress, QueuedRequest, Usage
from inference.queue import Charge
from kernel.redis import Client
from tenants.priority import PriorityClass
from tests.inference.making import START

RELEASE = "rel_a"
WEIGHTS = {"ten_a": 1.0, "ten_b": 1.0, "ten_c": 2.0, "ten_d": 1.0}
MOST_PROMPT, MOST_OUTPUT = 8, 20
# Tokens that all hosts together have room for.
POOL = 28


@dataclass(slots=True)
class Job:
    """tokens: that it will make; made, charged: so far"""

    request: QueuedRequest
    tokens: int
    host: str = ""
    made: int = 0
    charged: int = 0
    times_taken: int = 0

    @property
    def id(self) -> str:
        return self.request.generation_id

    @property
    def who(self) -> tuple[PriorityClass, str]:
        return self.request.priority_class, self.request.tenant_id

    @property
    def room(self) -> int:
        return len(self.request.engine_request.prompt_token_ids) + self.tokens


@dataclass(slots=True)
class Crowd:
    """waiting, running: by generation; service: what each (class, tenant) has had, by its cost
    looked_at: what the queue last offered
    """

    redis: Client
    now_us: int = int(START.timestamp()) * 1_000_000
    waiting: dict[str, Job] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)
    service: dict[tuple[PriorityClass, str], float] = field(default_factory=dict)
    looked_at: str = ""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def arrive(
        self, tenant: str, priority_class: PriorityClass = "standard", prompt: int = 4, out: int = 8
    ) -> Job:
        number = next(self._numbers)
        self.now_us += 1
        request = QueuedRequest(
            tenant_id=tenant,
            release_id=RELEASE,
            engine_request=EngineRequest(
                generation_id=f"gen_{number:06}",
                prompt_token_ids=[1] * prompt,
                sampling=Sampling(max_tokens=MOST_OUTPUT),
                cache_salt=tenant,
            ),
            admitted_at=self.now_us / 1_000_000,
            high_water_tokens=1000,
            priority_class=priority_class,
            weight=WEIGHTS.get(tenant, 1.0),
        )
        job = Job(request, out)
        await queue.enqueue(self.redis, request, now_us=self.now_us)
        self.waiting[job.id] = job
        return job

    @property
    def room(self) -> int:
        return POOL - sum(job.room for job in self.running.values())

    async def take(self, host: str = "inc_a") -> Job | None:
        """What the queue gives to a host that has so much room."""
        taken = await queue.claim(
            self.redis,
            RELEASE,
            host,
            takes=self._takes,
            now_us=self.now_us,
        )
        if taken is None:
            return None
        job = self.waiting.pop(taken.generation_id)
        self.running[job.id] = job
        job.host, job.times_taken = host, job.times_taken + 1
        # What its last host didn't come to charge for is charged now.
        self._settle(job)
        if job.times_taken == 1:
            prompt = len(job.request.engine_request.prompt_token_ids)
            self._serve(job, settings.INPUT_TOKEN_COST * prompt)
        return job

    def _takes(self, request: QueuedRequest) -> bool:
        self.looked_at = request.generation_id
        return self.waiting[self.looked_at].room <= self.room

    def make(self, tokens: int) -> None:
        """Everything that runs makes so many tokens, if it has as many to make."""
        for job in self.running.values():
            job.made = min(job.tokens, job.made + tokens)

    async def charge(self, *, again: bool = False) -> None:
        """Charge for what was made; again: as a host does that did not hear the reply."""
        due = [job for job in self.running.values() if job.made > job.charged]
        charges = [Charge(job.request, job.charged, job.made) for job in due]
        for _ in range(2 if again else 1):
            await queue.charge(self.redis, RELEASE, charges, now_us=self.now_us)
        for job in due:
            self._settle(job)

    def _settle(self, job: Job) -> None:
        self._serve(job, settings.OUTPUT_TOKEN_COST * (job.made - job.charged))
        job.charged = job.made

    def _serve(self, job: Job, service: float) -> None:
        self.service[job.who] = self.service.get(job.who, 0.0) + service

    async def end(self) -> None:
        """What has made all its tokens leaves its engine, charged."""
        await self.charge()
        for job in [job for job in self.running.values() if job.made >= job.tokens]:
            self.ended.append(self.running.pop(job.id))

    async def interrupt(self, job: Job, *, interrupted: bool, charged: bool) -> None:
        """Out of its engine and back into the queue; charged: its host could still do that."""
        if charged:
            await self.charge()
        del self.running[job.id]
        progress = Progress(token_ids=[1] * job.made, text="x" * job.made)
        job.request = msgspec.structs.replace(job.request, progress=progress)
        await self.redis.set(redis_keys.lease(job.id), f"suspended:{job.host}/{job.request.turn}")
        done = await queue.requeue(
            self.redis, job.request, interrupted=interrupted, now_us=self.now_us
        )
        assert done
        job.request = msgspec.structs.replace(job.request, turn=job.request.turn + 1)
        self.waiting[job.id] = job

    async def withdraw(self, job: Job) -> None:
        final = Finished(job.made, "", "cancelled", Usage(1, job.made))
        assert await queue.withdraw(self.redis, job.request, final)
        del self.waiting[job.id]

    async def counters(
        self, priority_class: PriorityClass, *, of: str = "waiting"
    ) -> dict[str, float]:
        """Of those that wait, or of all."""
        key = f"{redis_keys.share(RELEASE)}:{priority_class}:{of}"
        found = await self.redis.zrange(key, 0, -1, withscores=True)
        return {name.decode(): counter for name, counter in found}
