"""Engines that make a token when told to, hosts, web processes and clients in one event loop over
real Redis and the real database, for tests that choose every interleaving themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from inference import control, queue, redis_keys, registry, token_log
from inference.engine.protocol import (
    LOWEST_RANK,
    Capabilities,
    Delta,
    EngineRequest,
    FinishReason,
    Load,
    Sampling,
    Yielded,
)
from inference.host.runner import Runner
from inference.host.settler import Settler
from inference.host.writer import LogWriter
from inference.messages import QueuedRequest, ReplicaRecord, Tokens
from inference.pipeline.admission import Admitted
from inference.services import takeover
from kernel.ids import new_id
from kernel.redis import Client
from streaming.answer import Answer, Frame
from streaming.draining import NO_DRAIN
from streaming.relay import Relay
from tests.inference.making import START, StoppedClock


def piece(position: int) -> str:
    """Text of the answer's token at `position` (from 0)."""
    return f"{position} "


def text_of(start: int, end: int) -> str:
    return "".join(map(piece, range(start, end)))


@dataclass
class _Submitted:
    request: EngineRequest
    made: int
    deltas: asyncio.Queue[Delta] = field(default_factory=asyncio.Queue)
    held: bool = False
    over: bool = False


class SteppedEngine:
    """Makes tokens when told to step, several in one delta if told so. made: all handed out."""

    def __init__(self, *, hold: bool) -> None:
        self.capabilities = Capabilities(hold=hold, restore=True)
        self._submitted: dict[str, _Submitted] = {}
        self.made = 0

    def step(self, count: int) -> None:
        """Up to `count` tokens of everything that is not held."""
        for each in list(self._submitted.values()):
            if not (each.held or each.over):
                last = each.request.sampling.max_tokens
                end = min(each.made + count, last)
                reason: FinishReason | None = "length" if end == last else None
                ids = tuple(range(each.made, end))
                each.deltas.put_nowait(Delta(text_of(each.made, end), ids, reason))
                each.made, each.over = end, reason is not None

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def submit(self, request: EngineRequest) -> AsyncGenerator[Delta, None]:
        return self.restore(request, [], "")

    async def restore(
        self, request: EngineRequest, output_token_ids: list[int], text: str
    ) -> AsyncGenerator[Delta, None]:
        assert output_token_ids == list(range(len(output_token_ids))), "restored out of order"
        assert text == text_of(0, len(output_token_ids)), "restored with another text"
        mine = _Submitted(request, made=len(output_token_ids))
        self._submitted[request.generation_id] = mine
        try:
            while True:
                delta = await mine.deltas.get()
                self.made += len(delta.token_ids)
                yield delta
                if delta.finish_reason is not None:
                    return
        finally:
            self._submitted.pop(request.generation_id, None)

    async def abort(self, generation_id: str) -> None:
        each = self._submitted.get(generation_id)
        if each is not None and not each.over:
            each.over = True
            each.deltas.put_nowait(Delta("", (), "cancelled"))

    async def hold(self, generation_id: str) -> None:
        if each := self._submitted.get(generation_id):
            each.held = True

    async def release(self, generation_id: str) -> None:
        if each := self._submitted.get(generation_id):
            each.held = False

    async def yielded(self) -> Yielded:
        return Yielded()

    def load(self, *, lowest_rank: int = LOWEST_RANK) -> Load:
        return Load(len(self._submitted), 0)

    async def health(self) -> None: ...


class Host:
    """An engine host without its process: what it hears and writes, and a replica's record."""

    def __init__(self, redis: Client, clock: StoppedClock, release_id: str, *, hold: bool) -> None:
        self._redis, self._release_id = redis, release_id
        self.incarnation = new_id("inc")
        self.engine = SteppedEngine(hold=hold)
        writer = LogWriter(redis, self.incarnation, outage_limit_s=5)
        self.settler = Settler(redis, self.incarnation, clock)
        self.runner = Runner(self.engine, writer, self.settler, clock, release_name="stepped")
        self._tasks = [
            asyncio.create_task(loop)
            for loop in (writer.run(), self.settler.run(), self._listen(), self.runner.watch())
        ]

    async def announce(self) -> None:
        record = ReplicaRecord("slot", self.incarnation, self._release_id, "stepped", "ready")
        await registry.renew(self._redis, record, timeout_s=600)

    async def take(self) -> bool:
        request = await queue.claim(self._redis, self._release_id, self.incarnation)
        if request is not None:
            self.runner.start(request)
        return request is not None

    async def _listen(self) -> None:
        while True:
            for message in await control.receive(self._redis, self.incarnation, timeout_s=0.2):
                await self.runner.handle(message)

    async def kill(self) -> None:
        """It writes, settles and tells nothing more."""
        await ended(self._tasks)
        await ended([task for _, task in self.runner._tasks.values()])

    async def leave(self) -> None:
        await self.runner.drain(grace_s=0)
        await self.stop()
        await registry.leave(self._redis, self.incarnation)

    async def stop(self) -> None:
        await self.runner.stop()
        assert await self.settler.drain(timeout_s=20)
        await ended(self._tasks)


class Connection:
    """A client's connection to a web process. Checks every frame against what the client has."""

    def __init__(self, relay: Relay, admitted: Admitted, seq: int) -> None:
        self.relay = relay
        self.seq = seq
        self.final: object = None
        self._answer = Answer(admitted, (seq, 0), NO_DRAIN)
        self._frames = aiter(self._answer)
        self._next: asyncio.Task[Frame | None] | None = None

    @property
    def consumed(self) -> int:
        """How far the platform may believe this client to be."""
        return self._answer._reader.consumed

    @property
    def given(self) -> int:
        """How far it was sent something, arrived or not."""
        return self._answer._reader.given

    async def read(self, *, within_s: float) -> bool:
        """Take the next frame, if one comes. Reads on next time where it waits now."""
        if self.final is not None:
            return False
        self._next = self._next or asyncio.create_task(anext(self._frames, None))
        await asyncio.wait([self._next], timeout=within_s)
        if not self._next.done():
            return False
        frame, self._next = self._next.result(), None
        if frame is not None:
            self._check(frame)
        return frame is not None

    def _check(self, frame: Frame) -> None:
        start = self.seq + frame.missed
        assert frame.text == text_of(start, frame.seq), (self.seq, frame)
        self.seq, self.final = frame.seq, frame.final

    def acknowledge(self, seq: int) -> None:
        self._answer.has_read(seq)

    def stall(self) -> None:
        """As if it had not read on for longer than the grace."""
        self._answer._reader.moved_at -= 1_000

    async def close(self) -> None:
        if self._next is not None:
            await ended([self._next])
        await self._frames.aclose()


class River:
    """One answer of a made-up length, two hosts, two web processes."""

    def __init__(self, redis: Client, *, tokens: int, mark: int, policy: Any, hold: bool) -> None:
        self.redis, self.tokens, self.mark, self._hold = redis, tokens, mark, hold
        self.clock = StoppedClock()
        self.release_id = "rel_a"
        self.hosts: list[Host] = []
        self.gone: list[Host] = []
        self.relays = [Relay(redis), Relay(redis)]
        self.request = QueuedRequest(
            tenant_id="ten_a",
            release_id=self.release_id,
            engine_request=_engine_request(tokens),
            admitted_at=START.timestamp(),
            high_water_tokens=mark,
            detached=policy,
        )
        self.admitted = Admitted(
            tenant_id="ten_a",
            generation_id=self.request.generation_id,
            release_id=self.release_id,
            model="stepped",
            prompt_tokens=3,
            created_at=START,
            high_water_tokens=mark,
            detached=policy,
        )

    async def open(self) -> None:
        await self.redis.flushall()
        await queue.enqueue(self.redis, self.request)
        for _ in range(2):
            await self.add_host()

    async def add_host(self) -> None:
        host = Host(self.redis, self.clock, self.release_id, hold=self._hold)
        self.hosts.append(host)
        await host.announce()

    async def replace_host(self, number: int) -> None:
        """A deploy: it drains, another comes up."""
        host = self.hosts.pop(number)
        self.gone.append(host)
        await host.leave()
        await self.add_host()

    async def kill_host(self, number: int) -> None:
        """Without a word; another comes up."""
        host = self.hosts.pop(number)
        self.gone.append(host)
        await host.kill()
        await registry.lose(self.redis, host.incarnation)
        await self.add_host()

    async def cut_off(self, number: int) -> None:
        """It counts as lost, and doesn't know."""
        await registry.lose(self.redis, self.hosts[number].incarnation)

    async def notice(self) -> None:
        """Somebody looks for lost replicas."""
        await takeover.take_over(self.redis, self.clock, await registry.lost(self.redis))

    async def kill_web(self, number: int, connections: list[Connection]) -> None:
        """Without a word: nobody is told that its readers are gone."""
        dead = self.relays[number]
        self.relays[number] = Relay(self.redis)
        await ended(dead._tasks)
        for connection in connections:
            await connection.close()

    async def made(self) -> int:
        """Tokens in the log by the number of its last entry."""
        last = await token_log.last(self.redis, self.key)
        return last.position[0] if last else 0

    async def trim(self, entries: int) -> None:
        await self.redis.xtrim(self.key, maxlen=entries, approximate=False)

    @property
    def key(self) -> str:
        return redis_keys.log("ten_a", self.request.generation_id)

    async def entries(self) -> list[Tokens]:
        found = [logged.entry for logged in await token_log.read(self.redis, self.key)]
        return [entry for entry in found if isinstance(entry, Tokens)]

    @property
    def counted(self) -> tuple[int, int]:
        """Tokens that engines handed out, and that runners count."""
        hosts = self.hosts + self.gone
        return (
            sum(host.engine.made for host in hosts),
            sum(host.runner.tally.output_tokens for host in hosts),
        )

    async def close(self) -> None:
        for host in self.hosts:
            await host.stop()
        await ended([task for relay in self.relays for task in relay._tasks])


async def ended(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def soon(check: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Until `check` says so. Raises AssertionError when that takes far too long."""
    try:
        async with asyncio.timeout(30):
            while not await check():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"Not within 30 s: {what}") from None


def _engine_request(tokens: int) -> EngineRequest:
    return EngineRequest(new_id("gen"), [1, 2, 3], Sampling(max_tokens=tokens), "ten_a")
