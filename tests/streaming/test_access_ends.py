"""A reading whose access ends, at every place where it can wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from inference import queue
from inference.messages import Finished
from inference.models import State
from inference.pipeline.admission import Admitted
from kernel.database import database
from kernel.errors import PermissionDenied
from kernel.redis import Client
from streaming import answer
from streaming import relay as relaying
from streaming.connections import connections
from streaming.draining import NO_DRAIN
from streaming.openai import stream
from streaming.openai.stream import Wanted
from tenants.access import Access, AccessEnded
from tenants.principal import Principal
from tests.inference.making import START, Records, StoppedClock, entries, request

ENDED = AccessEnded("It was revoked.")
CLOCK = StoppedClock()


class Watch:
    """open: the accesses that are looked after"""

    def __init__(self) -> None:
        self.open: set[Access] = set()

    def add(self, access: Access) -> None:
        self.open.add(access)

    def discard(self, access: Access) -> None:
        self.open.discard(access)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def access(watch: Watch) -> Access:
    principal = Principal("ten_a", "service_account", "sva_a", key_id="key_a")
    return Access(principal, watch, where=lambda: None)


@pytest.fixture
async def admitted(redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch) -> Admitted:
    """An answer that waits in the queue. Nothing but an end wakes its readers: no check does."""
    monkeypatch.setattr(relaying, "CHECK_S", 3600)
    asked = request()
    await database(records.open, asked, key_id="key_a")
    await queue.enqueue(redis, asked)
    return Admitted(
        "ten_a", asked.generation_id, "rel_a", "fake", 3, START, 256, "hold", key_id="key_a"
    )


async def state(records: Records, admitted: Admitted) -> str:
    found = await database(records.of, request(generation_id=admitted.generation_id))
    return str(found.state)


async def begun(reading: answer.Answer) -> AsyncGenerator[Any, None]:
    """Its frames, of which the first has come: it waits at the log's end."""
    frames = aiter(reading)
    assert isinstance(frames, AsyncGenerator)
    await anext(frames)
    return frames


async def test_it_ends_while_nothing_happens(
    admitted: Admitted, access: Access, watch: Watch, records: Records
) -> None:
    """Its key has expired: its answer waits for another one."""
    async with answer.reading(admitted, CLOCK, transport="sse", access=access) as reading:
        assert watch.open == {access}
        frames = await begun(reading)
        waiting = asyncio.create_task(anext(frames))
        await asyncio.sleep(0)
        access.end(ENDED, is_withdrawn=False)
        with pytest.raises(AccessEnded):
            async with asyncio.timeout(30):
                await waiting
    assert watch.open == set()
    assert await state(records, admitted) == State.OPEN


@pytest.mark.parametrize("key_id", ["key_a", "key_b"])
async def test_what_was_withdrawn_ends_what_it_began_and_nothing_else(
    admitted: Admitted, access: Access, redis: Client, records: Records, key_id: str
) -> None:
    access.principal = Principal("ten_a", "service_account", "sva_a", key_id=key_id)
    async with answer.reading(admitted, CLOCK, transport="sse", access=access) as reading:
        frames = await begun(reading)
        access.end(ENDED, is_withdrawn=True)
        with pytest.raises(AccessEnded):
            async with asyncio.timeout(30):
                await anext(frames)
    while answer._ending:
        await asyncio.gather(*answer._ending)
    if key_id == "key_a":
        assert await state(records, admitted) == State.CANCELLED
        last = (await entries(redis, request(generation_id=admitted.generation_id)))[-1]
        assert isinstance(last, Finished)
    else:
        assert await state(records, admitted) == State.OPEN


async def test_it_ends_in_front_of_a_reader_without_room(
    admitted: Admitted, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "ROOM_POLL_S", 3600)
    async with answer.reading(admitted, CLOCK, transport="sse", access=access) as reading:
        frames = await begun(reading)
        reading._reader.given = 256
        waiting = asyncio.create_task(anext(frames))
        await asyncio.sleep(0)
        access.end(ENDED, is_withdrawn=False)
        with pytest.raises(AccessEnded):
            async with asyncio.timeout(30):
                await waiting


async def test_a_model_that_it_does_not_reach_is_not_read(
    admitted: Admitted, access: Access, watch: Watch
) -> None:
    access.principal = Principal("ten_a", "service_account", "sva_a", models=frozenset({"other"}))
    with pytest.raises(PermissionDenied):
        async with answer.reading(admitted, CLOCK, transport="sse", access=access):
            pass
    assert watch.open == set()


async def test_it_ends_while_its_connection_waits_for_its_turn(
    redis: Client,
    access: Access,
    watch: Watch,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.SSE_LIMIT = 1
    monkeypatch.setattr("streaming.connections.WATCH_S", 3600)
    holder = await connections().take("sse", access.principal)

    async def begin() -> stream.Begun:
        raise AssertionError("it is never its turn")

    response, _ = await stream.respond(access, begin, CLOCK, Wanted(), NO_DRAIN)
    assert watch.open == {access}
    events = aiter(response)
    assert b"connection queued" in await anext(events)
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    access.end(ENDED, is_withdrawn=True)
    async with asyncio.timeout(30):
        assert b"access_ended" in await waiting
    holder.close()
    assert watch.open == set()
