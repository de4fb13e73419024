"""Whatever the order in which tokens are made, written, read and acknowledged, clients leave and
come back, processes die and deploy: no reader loses a token, gets one twice or out of order;
nothing runs further ahead of its reader than its mark; the answer ends and is billed once, for what
was made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from inference.host import runner
from inference.models import Generation
from inference.services import checkpoints, generations, settlement
from kernel.clock import SystemClock
from kernel.database import database
from kernel.redis import client
from streaming import answer
from streaming import relay as relaying
from tests.inference.making import Records
from tests.streaming.river import Connection, River, soon

LARGEST_STEP = 3
GRACE_S = 30
NUMBERS = st.integers(0, 7)


class Streams(RuleBasedStateMachine):
    """Set up by the test: records, and where to put what a settled generation is told of."""

    records: Records
    settled: list[str]
    reading_from: Callable[[relaying.Relay], None]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.connections: list[Connection] = []
        # Where clients that left would go on.
        self.places = [0]
        self.furthest = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    @initialize(
        tokens=st.integers(1, 60),
        mark=st.integers(1, 8),
        policy=st.sampled_from(["hold", "hold", "hold", "finish", "cancel"]),
        hold=st.sampled_from([True, True, False]),
        crashes=st.booleans(),
    )
    def begin(self, tokens: int, mark: int, policy: str, hold: bool, crashes: bool) -> None:
        """crashes: hosts are killed and cut off. An answer whose log is trimmed can't survive
        that, so the one or the other happens.
        """
        self.crashes = crashes
        # What an engine that can't hold has made, nobody can take back.
        self.has_credit = hold and policy != "finish"
        self.may_be_cancelled = policy == "cancel"

        async def work() -> None:
            self.river = River(client(), tokens=tokens, mark=mark, policy=policy, hold=hold)
            await database(self.records.open, self.river.request)
            await self.river.open()

        self.run(work())

    # -- Engines and their hosts

    @rule(number=NUMBERS, steps=st.integers(1, 8), tokens=st.integers(1, LARGEST_STEP))
    def step(self, number: int, steps: int, tokens: int) -> None:
        """A host takes what waits, and its engine makes tokens of everything that it runs."""

        async def work() -> None:
            host = self.river.hosts[number % 2]
            await host.take()
            for _ in range(steps):
                await asyncio.sleep(0.002)
                host.engine.step(tokens)
            await asyncio.sleep(0.002)

        self.run(work())

    @rule(number=NUMBERS)
    def deploy_host(self, number: int) -> None:
        self.run(self.river.replace_host(number % 2))

    @rule()
    def silence(self) -> None:
        """For longer than the grace nothing was heard of any reader."""

        async def work() -> None:
            self.river.clock.advance(GRACE_S + 1)
            await asyncio.sleep(0.01)

        self.run(work())

    @precondition(lambda self: self.crashes)
    @rule(number=NUMBERS)
    def kill_host(self, number: int) -> None:
        self.run(self.river.kill_host(number % 2))

    @precondition(lambda self: self.crashes)
    @rule(number=NUMBERS)
    def cut_off(self, number: int) -> None:
        self.run(self.river.cut_off(number % 2))

    @precondition(lambda self: self.crashes)
    @rule()
    def notice(self) -> None:
        self.run(self.river.notice())

    @precondition(lambda self: self.crashes)
    @rule(number=NUMBERS)
    def come_back(self, number: int) -> None:
        self.run(self.river.hosts[number % 2].announce())

    @precondition(lambda self: not self.crashes)
    @rule(entries=st.integers(1, 6))
    def trim(self, entries: int) -> None:
        self.run(self.river.trim(entries))

    # -- Clients

    @rule(web=NUMBERS, place=NUMBERS)
    def connect(self, web: int, place: int) -> None:
        if len(self.connections) < 4:
            seq = self.places[place % len(self.places)]
            self._connect(self.river.relays[web % 2], seq)

    def _connect(self, relay: relaying.Relay, seq: int) -> Connection:
        async def work() -> Connection:
            return Connection(relay, self.river.admitted, seq)

        connection: Connection = self.run(work())
        self.connections.append(connection)
        return connection

    @precondition(lambda self: self.connections)
    @rule(which=NUMBERS)
    def read(self, which: int) -> None:
        self.run(self._read(self._one(which)))

    async def _read(self, connection: Connection) -> bool:
        # Read on by the web process that it is connected to.
        self.reading_from(connection.relay)
        return await connection.read(within_s=0.02)

    @precondition(lambda self: self.connections)
    @rule(which=NUMBERS, off_by=st.sampled_from([0, 0, 0, 0, -1, -5, 1_000]))
    def acknowledge(self, which: int, off_by: int) -> None:
        """Rightly, late, doubly, or from the future."""

        async def work() -> None:
            one = self._one(which)
            one.acknowledge(max(0, one.seq + off_by))
            assert one.consumed <= one.given

        self.run(work())

    @precondition(lambda self: self.connections)
    @rule(which=NUMBERS)
    def stall(self, which: int) -> None:
        self._one(which).stall()

    @precondition(lambda self: self.connections)
    @rule(which=NUMBERS)
    def disconnect(self, which: int) -> None:
        one = self._one(which)
        self.connections.remove(one)
        self.places.append(one.seq)
        self.run(one.close())

    @rule(web=NUMBERS)
    def kill_web(self, web: int) -> None:
        number = web % 2
        lost = [one for one in self.connections if one.relay is self.river.relays[number]]
        self.connections = [one for one in self.connections if one not in lost]
        self.places += [one.seq for one in lost]
        self.run(self.river.kill_web(number, lost))

    @rule(racing=st.integers(1, 3))
    def go_on(self, racing: int) -> None:
        async def work() -> list[bool]:
            once = (
                checkpoints.go_on(self.river.redis, "ten_a", self.river.request.generation_id)
                for _ in range(racing)
            )
            return await asyncio.gather(*once)

        assert sum(self.run(work())) <= 1

    @rule(really=st.sampled_from([False, False, False, True]))
    def cancel(self, really: bool) -> None:
        if really:
            self.may_be_cancelled = True
            self.run(generations.cancel(self.river.admitted, SystemClock()))

    # -- What always holds

    def _one(self, which: int) -> Connection:
        return self.connections[which % len(self.connections)]

    def check_invariants(self, *args: Any, **kwargs: Any) -> None:
        super().check_invariants(*args, **kwargs)
        if hasattr(self, "river"):
            self._is_within_credit()

    def _is_within_credit(self) -> None:
        self.furthest = max([self.furthest, *(one.consumed for one in self.connections)])
        if self.has_credit:
            made = self.run(self.river.made())
            assert made <= self.furthest + self.river.mark + LARGEST_STEP, (made, self.furthest)

    def teardown(self) -> None:
        try:
            if hasattr(self, "river"):
                self._finish()
        finally:
            self.loop.close()

    def _finish(self) -> None:
        """Everybody reads on, and the answer ends."""
        last = self._connect(self.river.relays[0], max(self.places))
        first = self._connect(self.river.relays[1], 0)
        try:
            self.run(soon(self._pump, what="the answer ends for everybody"))
            self.run(self._check_the_end([first, last]))
        finally:
            for one in self.connections:
                self.run(one.close())
            self.run(self.river.close())

    async def _pump(self) -> bool:
        await self.river.notice()
        for host in self.river.hosts:
            await host.announce()
            await host.take()
            host.engine.step(LARGEST_STEP)
        for one in self.connections:
            await self._read(one)
            one.acknowledge(one.seq)
        return all(one.final is not None for one in self.connections)

    async def _check_the_end(self, clients: list[Connection]) -> None:
        found: Generation = await database(self.records.of, self.river.request)
        while found.settled_at is None:
            await asyncio.sleep(0.005)
            found = await database(self.records.of, self.river.request)
        made, counted = self.river.counted
        assert found.output_tokens == await self.river.made()
        if not self.crashes:
            # A killed host takes along what it had not written.
            assert made == counted == found.output_tokens
        assert self.settled.count(found.id) == 1
        assert {one.seq for one in self.connections} == {found.output_tokens}
        assert clients[0].final == clients[1].final
        assert found.state == "finished" or (
            self.may_be_cancelled and found.state == "cancelled"
        ), found
        if found.state == "finished":
            assert found.output_tokens == self.river.tokens


@pytest.mark.timeout(600)
def test_every_reader_gets_every_token_once_whatever_happens(
    records: Records,
    listeners: list[settlement.Listener],
    monkeypatch: pytest.MonkeyPatch,
    valkey: object,
) -> None:
    monkeypatch.setattr(runner, "WATCH_S", 0.002)
    monkeypatch.setattr(relaying, "TELL_S", 0.002)
    monkeypatch.setattr(relaying, "CHECK_S", 0.01)
    monkeypatch.setattr("django.conf.settings.TAKEOVER_LIMIT", 1_000)
    Streams.records = records
    Streams.settled = []
    listeners.append(lambda generation, _outcome: Streams.settled.append(generation.id))
    Streams.reading_from = staticmethod(
        lambda relay: monkeypatch.setattr(answer, "relay", lambda: relay)
    )
    run_state_machine_as_test(
        Streams,
        settings=settings(
            max_examples=50,
            stateful_step_count=25,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
