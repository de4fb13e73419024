from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from inference import queue, redis_keys, registry, token_log
from inference.messages import Finished, QueuedRequest, ReplicaRecord, Started, Tokens, Usage
from inference.services import takeover
from inference.token_log import LogEntry, Write
from kernel.errors import InternalError, Unavailable
from kernel.redis import Client, client
from streaming import relay as relaying
from streaming.reading import Reader
from streaming.relay import Relay
from tests.ground import folders
from tests.ground.valkey import Valkey
from tests.inference.making import leased, request

Log = AsyncGenerator[list[LogEntry], None]
RECORD = ReplicaRecord("engine", "inc_a", "rel_a", "fake", "ready")


@pytest.fixture
def relay(redis: Client) -> Relay:
    return Relay(redis)


class Writer:
    """Writes a log token by token, and ends it."""

    def __init__(self, redis: Client, asked: QueuedRequest) -> None:
        self._redis = redis
        self.asked = asked
        self.seq = 0

    async def write(self, count: int = 1, *, last: bool = False) -> None:
        entries: list[Tokens | Finished] = []
        for _ in range(count):
            self.seq += 1
            entries.append(Tokens(seq=self.seq, text=f"{self.seq} ", token_ids=(self.seq,)))
        if last:
            usage = Usage(prompt_tokens=3, output_tokens=self.seq)
            entries.append(Finished(self.seq, "", "stop", usage))
        writes = [Write(self.asked.tenant_id, self.asked.generation_id, e) for e in entries]
        assert all(await token_log.append(self._redis, "inc_a", writes))


@pytest.fixture
async def writer(redis: Client) -> Writer:
    await registry.renew(redis, RECORD, timeout_s=60)
    return Writer(redis, await leased(redis, "inc_a"))


def follow(relay: Relay, writer: Writer, after: int = 0) -> Log:
    asked = writer.asked
    return relay.follow(
        asked.tenant_id, asked.generation_id, reader=somebody(after), after=(after, 0)
    )


def somebody(after: int = 0) -> Reader:
    """A reader that is always there."""
    return Reader(256, moved_at=0.0, given=after, consumed=after)


def numbers(entries: list[LogEntry]) -> list[int]:
    tokens = [each.entry for each in entries if isinstance(each.entry, Tokens)]
    return [token for entry in tokens for token in entry.token_ids]


async def rest(log: Log) -> list[int]:
    """The tokens up to the end."""
    found: list[int] = []
    async with contextlib.aclosing(log):
        async for entries in log:
            found += numbers(entries)
    return found


async def until(log: Log, number: int) -> list[int]:
    """The tokens up to this one, which has to be the last of its batch."""
    found: list[int] = []
    async for entries in log:
        found += numbers(entries)
        if found and found[-1] >= number:
            return found
    raise AssertionError("the log ended before")


async def test_replay_and_live_are_one_read(relay: Relay, writer: Writer) -> None:
    await writer.write(3)
    log = follow(relay, writer)
    assert await until(log, 3) == [1, 2, 3]
    await writer.write(2)
    assert await until(log, 5) == [4, 5]
    await writer.write(1, last=True)
    assert await rest(log) == [6]


async def test_a_batch_holds_everything_that_has_piled_up(relay: Relay, writer: Writer) -> None:
    await writer.write(200, last=True)
    log = follow(relay, writer)
    batches = [entries async for entries in log]
    assert [type(each.entry) for each in batches[0][1:2]] == [Started]
    assert len(batches) == 1
    assert numbers(batches[0]) == list(range(1, 201))


async def test_a_slow_reader_reads_on_from_the_log_and_misses_nothing(
    relay: Relay, writer: Writer
) -> None:
    log, quick = follow(relay, writer), follow(relay, writer)
    await writer.write(1)
    assert await until(log, 1) == [1]
    for wanted in range(2, 400, 40):
        await writer.write(40)
        await until(quick, wanted + 39)
    await writer.write(1, last=True)
    assert await rest(quick) == [writer.seq]
    assert await rest(log) == list(range(2, writer.seq + 1))


async def test_a_reader_that_overtakes_the_shared_read_waits_for_it(
    relay: Relay, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has fetched from the log itself may be ahead of what was handed out to all."""
    log = follow(relay, writer)
    await writer.write(1)
    assert await until(log, 1) == [1]
    deliver, held = relay._deliver, asyncio.Event()
    monkeypatch.setattr(relay, "_deliver", lambda *_: held.set())
    await writer.write(1)
    await held.wait()
    tail = relay._tails[redis_keys.log(writer.asked.tenant_id, writer.asked.generation_id)]
    late = follow(relay, writer)
    assert await until(late, 2) == [1, 2]
    assert tail.position < (2, 0)
    behind = asyncio.ensure_future(anext(late))
    await asyncio.sleep(0.05)
    assert not behind.done()
    monkeypatch.setattr(relay, "_deliver", deliver)
    await writer.write(1, last=True)
    assert numbers(await behind) + await rest(late) == [3]
    assert await rest(log) == [2, 3]


async def test_many_readers_of_one_log(relay: Relay, writer: Writer) -> None:
    readers = [asyncio.create_task(rest(follow(relay, writer))) for _ in range(20)]
    for _ in range(10):
        await writer.write(3)
        await asyncio.sleep(0.002)
    readers += [asyncio.create_task(rest(follow(relay, writer))) for _ in range(5)]
    await writer.write(2, last=True)
    for numbers_read in await asyncio.gather(*readers):
        assert numbers_read == list(range(1, 33))
    assert relay._tails == {}


async def test_a_reader_that_comes_late_or_goes_on_from_a_position(
    relay: Relay, writer: Writer
) -> None:
    first = follow(relay, writer)
    await writer.write(5)
    assert await until(first, 5) == [1, 2, 3, 4, 5]
    second, third = follow(relay, writer), follow(relay, writer, after=3)
    assert await until(second, 5) == [1, 2, 3, 4, 5]
    assert await until(third, 5) == [4, 5]
    ahead = asyncio.create_task(rest(follow(relay, writer, after=6)))
    await writer.write(3, last=True)
    assert await asyncio.gather(rest(first), rest(second), rest(third)) == [[6, 7, 8]] * 3
    assert await ahead == [7, 8]
    assert await rest(follow(relay, writer)) == list(range(1, 9))


async def test_a_reader_that_joins_while_a_read_is_on_its_way_starts_at_its_beginning(
    relay: Relay, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = follow(relay, writer)
    await writer.write(2)
    assert await until(log, 2) == [1, 2]
    xread, replied, go_on = relay._redis.xread, asyncio.Event(), asyncio.Event()

    async def slow(*args: object, **options: object) -> object:
        reply = await xread(*args, **options)
        replied.set()
        await go_on.wait()
        return reply

    waiting = asyncio.ensure_future(anext(log))
    monkeypatch.setattr(relay._redis, "xread", slow)
    # The read that is waiting now is answered, the next one is held back with its reply.
    await writer.write(1)
    await waiting
    await writer.write(1)
    await replied.wait()
    await log.aclose()
    again = follow(relay, writer)
    reading = asyncio.create_task(until(again, 4))
    await asyncio.sleep(0.02)
    go_on.set()
    assert await reading == [1, 2, 3, 4]


async def test_a_quiet_log_gives_its_readers_a_sign(
    relay: Relay, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "CHECK_S", 0.02)
    log = follow(relay, writer)
    # On a busy machine quiet may come before, and between, the two entries that are there.
    arrived: list[LogEntry] = []
    while not arrived or not isinstance(arrived[-1].entry, Started):
        arrived += await anext(log)
    assert await anext(log) == []
    assert await anext(log) == []
    await writer.write(1, last=True)
    assert await rest(log) == [1]


async def test_a_log_that_is_gone_is_told(
    relay: Relay, writer: Writer, redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "CHECK_S", 0.02)
    log = follow(relay, writer)
    await writer.write(1)
    await until(log, 1)
    await redis.delete(redis_keys.log(writer.asked.tenant_id, writer.asked.generation_id))
    with pytest.raises(Unavailable) as told:
        await rest(log)
    assert told.value.code == "log_lost"
    with pytest.raises(Unavailable):
        await rest(relay.follow("ten_a", "gen_never", reader=somebody()))


async def test_the_other_readers_go_on_when_one_log_is_gone(
    relay: Relay, writer: Writer, redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "CHECK_S", 0.02)
    reading = asyncio.create_task(rest(follow(relay, writer)))
    with pytest.raises(Unavailable):
        await rest(relay.follow("ten_a", "gen_never", reader=somebody()))
    await writer.write(2, last=True)
    assert await reading == [1, 2]


async def test_what_fails_while_looking_after_quiet_logs_does_not_stop_the_looking(
    relay: Relay, writer: Writer, redis: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away when a replica is lost: the readers are told once it is back."""
    monkeypatch.setattr(relaying, "CHECK_S", 0.02)
    failures: list[str] = []

    async def failing(*_args: object) -> int:
        failures.append("the database is away")
        raise RuntimeError(failures[-1])

    monkeypatch.setattr(takeover, "take_over", failing)
    log = follow(relay, writer)
    await anext(log)
    await registry.lose(redis, "inc_a")
    while len(failures) < 3:
        assert await anext(log) == []
    await writer.write(1, last=True)
    assert await rest(log) == [1]


async def test_an_entry_that_cannot_be_read_breaks_off_its_own_log_alone(
    relay: Relay, writer: Writer, redis: Client
) -> None:
    other = Writer(redis, await leased(redis, "inc_a"))
    broken, healthy = follow(relay, writer), follow(relay, other)
    await writer.write(2)
    await other.write(2)
    assert (await until(broken, 2), await until(healthy, 2)) == ([1, 2], [1, 2])
    waiting = asyncio.ensure_future(rest(broken))
    key = redis_keys.log(writer.asked.tenant_id, writer.asked.generation_id)
    await redis.xadd(key, {"e": b"not msgpack"}, id="3-0")
    with pytest.raises(InternalError):
        await waiting
    await other.write(3, last=True)
    assert await rest(healthy) == [3, 4, 5]


async def test_a_reader_that_leaves_frees_its_place(relay: Relay, writer: Writer) -> None:
    logs = [follow(relay, writer) for _ in range(3)]
    for log in logs:
        await anext(log)
    assert len(relay._tails) == 1
    for log in logs:
        await log.aclose()
    assert relay._tails == {}


async def test_a_waiting_generation_is_followed_into_its_start(relay: Relay, redis: Client) -> None:
    asked = request()
    await queue.enqueue(redis, asked)
    log = relay.follow(asked.tenant_id, asked.generation_id, reader=somebody())
    assert len(await anext(log)) == 1
    started = asyncio.ensure_future(anext(log))
    await registry.renew(redis, RECORD, timeout_s=60)
    await queue.claim(redis, "rel_a", "inc_a")
    while not (entries := await started):
        started = asyncio.ensure_future(anext(log))
    assert [type(each.entry) for each in entries] == [Started]
    await log.aclose()


@pytest.fixture
async def own_valkey(settings: Settings) -> AsyncIterator[Valkey]:
    """A Redis that this test may kill."""
    folder: Path = folders.short("nehir-valkey-")
    server = Valkey(folder / "valkey.sock").start()
    settings.REDIS_URL = server.url
    yield server
    await client().aclose()
    server.stop()


async def test_readers_are_told_when_redis_is_gone_and_read_again_when_it_is_back(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "OUTAGE_PAUSE_S", 0.02)
    redis = client()
    relay = Relay(redis)
    await registry.renew(redis, RECORD, timeout_s=60)
    before = Writer(redis, await leased(redis, "inc_a"))
    log = follow(relay, before)
    await before.write(1)
    await until(log, 1)
    own_valkey.kill()
    with pytest.raises(Unavailable) as told:
        await rest(log)
    assert told.value.code == "service_unavailable"
    with pytest.raises(Unavailable):
        await rest(follow(relay, before))
    own_valkey.start()
    after = Writer(redis, await leased(redis, "inc_a"))
    await after.write(3, last=True)
    assert await rest(follow(relay, after)) == [1, 2, 3]
