"""Whatever comes, is taken, made, interrupted and withdrawn, in whatever order and however the
clock jumps: tenants that wait get their share within VTC's bound, nothing is lost, taken twice or
passed over, and no host is idle while something waits that it has room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import combinations
from typing import Any

from django.conf import settings as django_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pytest_django.fixtures import Settings

from inference import queue, redis_keys
from kernel.redis import client
from tenants.priority import CLASSES
from tests.ground.thorough import thorough
from tests.inference.crowd import MOST_OUTPUT, MOST_PROMPT, POOL, RELEASE, WEIGHTS, Crowd, Job

HOSTS = ("inc_a", "inc_b")
# Two tenants that both wait are never further apart: Theorem 4.4 of the paper, and weights.
BOUND = 2 * max(MOST_PROMPT, 2 * POOL) / min(WEIGHTS.values())


class Sharing(RuleBasedStateMachine):
    """spells: for two tenants of a class that both wait, how far one was ahead since both do"""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.spells: dict[tuple[str, str, str], tuple[float, float]] = {}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    @initialize(floor=st.sampled_from([0.0, 0.2]))
    def begin(self, floor: float) -> None:
        django_settings.CLASS_FLOOR = floor

        async def work() -> None:
            await client().flushall()
            self.crowd = Crowd(client())

        self.run(work())

    @rule(
        tenant=st.sampled_from(sorted(WEIGHTS)),
        priority_class=st.sampled_from(["standard", "standard", *CLASSES]),
        prompt=st.integers(1, MOST_PROMPT),
        out=st.integers(1, MOST_OUTPUT),
        count=st.integers(1, 4),
    )
    def arrive(self, tenant: str, priority_class: Any, prompt: int, out: int, count: int) -> None:
        for _ in range(count):
            self.run(self.crowd.arrive(tenant, priority_class, prompt, out))
        self.look()

    @rule(host=st.sampled_from(HOSTS), most=st.integers(1, 6))
    def take(self, host: str, most: int) -> None:
        for _ in range(most):
            if not self.run(self._take(host)):
                return
            self.look()

    async def _take(self, host: str) -> bool:
        crowd = self.crowd
        waiting = list(crowd.waiting.values())
        counters = {each: await crowd.counters(each) for each in CLASSES}
        taken = await crowd.take(host)
        if taken is None:
            assert not waiting or crowd.waiting[crowd.looked_at].room > crowd.room
            return False
        self._check_turn(taken, waiting, counters[taken.request.priority_class])
        return True

    def _check_turn(self, taken: Job, waiting: list[Job], counters: dict[str, float]) -> None:
        """The highest class, the least counter, the first of its line."""
        priority_class, tenant = taken.who
        if not django_settings.CLASS_FLOOR:
            assert CLASSES.index(priority_class) == min(CLASSES.index(j.who[0]) for j in waiting)
        if taken.times_taken == 1:
            assert counters[tenant] == min(counters.values())
            for job in waiting:
                if job.who == taken.who and not job.times_taken:
                    assert taken.request.admitted_at <= job.request.admitted_at

    @rule(tokens=st.integers(1, MOST_OUTPUT), again=st.booleans())
    def step(self, tokens: int, again: bool) -> None:
        self.crowd.make(tokens)
        self.run(self._charge(again=again))
        self.look()
        self.run(self.crowd.end())

    async def _charge(self, *, again: bool) -> None:
        """What a tenant has had since the last time is what its counter has grown by."""
        counters, service = [await self._counters()], [dict(self.crowd.service)]
        await self.crowd.charge(again=again)
        counters.append(await self._counters())
        service.append(self.crowd.service)
        for who in counters[0]:
            had = service[1].get(who, 0.0) - service[0].get(who, 0.0)
            assert counters[1][who] - counters[0][who] == had / WEIGHTS[who[1]]

    async def _counters(self) -> dict[tuple[Any, str], float]:
        return {
            (each, tenant): counter
            for each in CLASSES
            for tenant, counter in (await self.crowd.counters(each, of="counters")).items()
        }

    @rule(tokens=st.integers(1, 5))
    def make_uncharged(self, tokens: int) -> None:
        self.crowd.make(tokens)

    @rule(number=st.integers(0, 99), interrupted=st.booleans(), charged=st.booleans())
    def interrupt(self, number: int, interrupted: bool, charged: bool) -> None:
        running = list(self.crowd.running.values())
        if running:
            job = running[number % len(running)]
            self.run(self.crowd.interrupt(job, interrupted=interrupted, charged=charged))
            self.look()

    @rule(number=st.integers(0, 99))
    def withdraw(self, number: int) -> None:
        waiting = list(self.crowd.waiting.values())
        if waiting:
            self.run(self.crowd.withdraw(waiting[number % len(waiting)]))
            self.look()

    @rule(seconds=st.integers(-5000, 5000))
    def jump(self, seconds: int) -> None:
        self.crowd.now_us += seconds * 1_000_000

    def look(self) -> None:
        """How far those that wait have come apart since they do."""
        both = {}
        for priority_class in CLASSES:
            waiting = self.run(self.crowd.counters(priority_class))
            for one, other in combinations(sorted(waiting), 2):
                key = (priority_class, one, other)
                ahead = self._share(priority_class, one) - self._share(priority_class, other)
                least, most = self.spells.get(key, (ahead, ahead))
                both[key] = least, most = min(least, ahead), max(most, ahead)
                assert most - least <= BOUND
        self.spells = both

    def _share(self, priority_class: Any, tenant: str) -> float:
        return self.crowd.service.get((priority_class, tenant), 0.0) / WEIGHTS[tenant]

    @invariant()
    def books_are_right(self) -> None:
        self.run(self._check_books())

    async def _check_books(self) -> None:
        redis, waiting = client(), self.crowd.waiting
        ids = {name.decode() for name in await redis.zrange(redis_keys.queue(RELEASE), 0, -1)}
        sizes = {name.decode() for name in await redis.hkeys(redis_keys.queue_sizes(RELEASE))}
        tenants = await redis.hgetall(redis_keys.queue_tenants(RELEASE))
        expected: dict[bytes, int] = {}
        for job in waiting.values():
            name = job.who[1].encode()
            expected[name] = expected.get(name, 0) + 1
        assert ids == sizes == set(waiting)
        assert {name: int(count) for name, count in tenants.items()} == expected

    def teardown(self) -> None:
        """Everything that waits is served in the end, and nothing is left behind."""
        while self.crowd.waiting:
            while self.run(self.crowd.take()):
                pass
            self.crowd.make(MOST_OUTPUT)
            self.run(self.crowd.end())
        self.run(self._check_books())
        self.run(self._check_nothing_left())
        self.loop.close()

    async def _check_nothing_left(self) -> None:
        redis = client()
        assert await redis.keys("nehir:share:*:line:*") == []
        assert await redis.keys("nehir:share:*:waiting") == []
        assert await redis.keys("nehir:share:*:restored") == []
        assert await queue.claim(redis, RELEASE, "inc_a") is None
        await redis.aclose()


def test_any_order_of_events_is_shared_fairly(settings: Settings) -> None:
    settings.QUEUE_TIMEOUT_S = 86_400
    run_state_machine_as_test(Sharing, settings=thorough())
