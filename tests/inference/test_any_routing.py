"""Whatever comes and whoever asks, leaves, hangs or is lost, in whatever order: leaving a request
for the replica that has served its prompt changes neither who is next nor that everything is taken
once, and delays nothing beyond `PREFIX_WAIT_MS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pytest_django.fixtures import Settings

from inference import redis_keys
from inference.claiming import Claimed, Left
from inference.messages import QueuedRequest
from kernel.redis import client
from tests.ground.thorough import thorough
from tests.inference.prefix_hosts import RELEASE, Hosts, longest_us

NAMES = ("inc_a", "inc_b", "inc_c")
HOST = st.sampled_from(NAMES)


class Routing(RuleBasedStateMachine):
    """left: since when (us) each request has been left for another
    told: what room each replica said it had; serves: those that are heard of and don't leave
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.left: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.serves = set(NAMES)
        self.asked: list[QueuedRequest] = []
        self.running: dict[str, list[QueuedRequest]] = {name: [] for name in NAMES}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    @initialize()
    def begin(self) -> None:
        async def work() -> None:
            await client().flushall()
            self.hosts = Hosts(client())
            for name in NAMES:
                await self.hosts.there(name)

        self.run(work())

    @rule(
        tenant=st.sampled_from(["ten_a", "ten_b"]),
        topic=st.integers(1, 3),
        blocks=st.integers(0, 4),
        count=st.integers(1, 3),
    )
    def arrive(self, tenant: str, topic: int, blocks: int, count: int) -> None:
        for _ in range(count):
            prompt = [topic] * (2 * blocks) + [99]
            self.asked.append(self.run(self.hosts.arrive(*prompt, tenant=tenant)))

    @rule(name=HOST, most=st.integers(1, 6))
    def ask(self, name: str, most: int) -> None:
        for _ in range(most):
            if self.hosts.room.get(name, 0) <= 0:
                return
            if not isinstance(self.run(self._ask(name)), Claimed):
                return

    async def _ask(self, name: str) -> Claimed | Left | None:
        hosts = self.hosts
        await hosts.redis.delete(redis_keys.host_bell(name))
        following = await hosts.following()
        reply = await hosts.ask(name)
        self.told[name] = hosts.room[name]
        if isinstance(reply, Claimed):
            assert reply.request.generation_id == following
            self.running[name].append(reply.request)
        elif isinstance(reply, Left):
            assert following is not None
            await self._check_left(name, following, reply)
        else:
            assert following is None
        return reply

    async def _check_left(self, name: str, following: str, reply: Left) -> None:
        since = self.left.setdefault(following, self.hosts.now_us)
        until = since + longest_us()
        assert self.hosts.now_us < until
        assert reply.wait_s == (until - self.hosts.now_us) / 1e6
        able = [each for each in self.serves - {name} if self.told.get(each, 0) > 0]
        called = [other for other in able if await self.hosts.is_called(other)]
        assert called, "left for nobody who could take it"

    @rule(milliseconds=st.sampled_from([1, 10, 30, 60]))
    def wait(self, milliseconds: int) -> None:
        self.hosts.pass_ms(milliseconds)

    @rule(name=HOST)
    def end_one(self, name: str) -> None:
        if self.running[name] and name in self.hosts.room:
            self.run(self.hosts.ended(name, self.running[name].pop()))

    @rule(name=HOST, state=st.sampled_from(["ready", "ready", "draining"]))
    def come_back(self, name: str, state: str) -> None:
        self.run(self.hosts.there(name, room=self.hosts.room.get(name, 4), state=state))
        self.serves = self.serves | {name} if state == "ready" else self.serves - {name}

    @rule(name=HOST)
    def lose(self, name: str) -> None:
        if name in self.hosts.room and len(self.hosts.room) > 1:
            self.run(self.hosts.lose(name))
            self.serves.discard(name)

    def teardown(self) -> None:
        """One that is there takes all that waits, while all others hang."""
        name = next(iter(self.hosts.room))
        self.hosts.room[name] = len(self.asked) + 1
        hung_us = 0
        while (reply := self.run(self._ask(name))) is not None:
            if isinstance(reply, Left):
                hung_us += round(reply.wait_s * 1e6)
                self.hosts.now_us += round(reply.wait_s * 1e6)
        # Each of the others delays once.
        assert hung_us <= (len(NAMES) - 1) * longest_us()
        taken = [generation_id for _, generation_id in self.hosts.taken]
        assert sorted(taken) == sorted(each.generation_id for each in self.asked)
        for tenant in ("ten_a", "ten_b"):
            mine = [each.generation_id for each in self.asked if each.tenant_id == tenant]
            assert [each for each in taken if each in mine] == mine
        self.run(self._check_nothing_left())
        self.loop.close()

    async def _check_nothing_left(self) -> None:
        redis, share = client(), redis_keys.share(RELEASE)
        assert await redis.exists(f"{share}:prefixes", f"{share}:left") == 0
        await redis.aclose()


def test_any_order_of_events_is_routed_in_turn_and_in_time(settings: Settings) -> None:
    settings.PREFIX_BLOCK_TOKENS = 2
    settings.PREFIX_WAIT_MS = 50
    settings.PREFIX_SLACK = 3
    run_state_machine_as_test(Routing, settings=thorough())
