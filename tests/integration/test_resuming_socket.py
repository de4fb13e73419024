"""Acknowledgements and resumes over the chat socket, right and wrong ones."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.conftest import OwnStack
from tests.ground.fault_proxy import between
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.chatting import Event, Socket, chatting
from tests.integration.reading import reader

MARK = 16


def text_of(events: list[Event]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "tokens")


async def outstanding(socket: Socket, generation: str, mark: int) -> list[Event]:
    """The frames up to the one behind which this client has its mark outstanding."""
    frames: list[Event] = []
    while not frames or frames[-1]["seq"] < mark:
        frames += [e for e in await socket.until("tokens") if e["type"] == "tokens"]
    return frames


async def quiet(socket: Socket) -> bool:
    """Nothing but news of models comes for a while."""
    try:
        async with asyncio.timeout(1):
            return not await socket.until("tokens", "finished", "error", "gap")
    except TimeoutError:
        return True


async def to_the_end(socket: Socket, generation: str, behind: int = 0) -> list[Event]:
    """Acknowledge what has come, and every frame from there, until it is finished."""
    events: list[Event] = []
    await socket.ack(generation, behind)
    while not events or events[-1]["type"] != "finished":
        events += await socket.until("tokens", "finished", "error", generation=generation)
        assert events[-1]["type"] != "error", events[-1]
        await socket.ack(generation, events[-1]["seq"])
    return events


async def exact(stack: Stack, generation: str, events: list[Event]) -> None:
    text, seq = await asyncio.to_thread(stack.logged, generation)
    settled = await asyncio.to_thread(stack.settled, generation)
    assert text_of(events) == text
    assert settled["output_tokens"] == seq == events[-1]["usage"]["completion_tokens"]


async def test_without_acknowledgements_it_is_held_then_suspended_then_gone_on_with(
    own_stack: OwnStack,
) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="10", NEHIR_DETACH_GRACE_S="4")
    async with chatting(stack) as socket:
        accepted = await socket.accepted(high_water_tokens=MARK)
        generation = accepted["generation"]
        frames = await outstanding(socket, generation, MARK)
        await asyncio.to_thread(
            wait_until, lambda: stack.held() == 1 or stack.suspended(generation), what="it is held"
        )
        checkpoint = await asyncio.to_thread(stack.suspended, generation)
        made = stack.logged(generation)[1]
        assert frames[-1]["seq"] <= made <= 2 * MARK + 1
        assert checkpoint["seq"] == made
        # The connection is there, and that alone does not revive it.
        assert await quiet(socket)
        assert stack.suspended(generation) == checkpoint
        events = frames + await to_the_end(socket, generation, frames[-1]["seq"])
    await exact(stack, generation, events)
    assert events[-1]["usage"]["completion_tokens"] == 256


async def test_acknowledgements_that_are_none(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted(high_water_tokens=MARK)
        generation = accepted["generation"]
        events = await outstanding(socket, generation, MARK)
        for seq in (-1, "7", 1.5, None, 2**60):
            await socket.ack(generation, seq)
            refused = (await socket.until("error", "tokens"))[-1]
            assert (refused["type"], refused["generation"]) == ("error", None)
            assert refused["error"]["code"] == "invalid_request"
        # Of another answer, of long ago, doubled: nothing happens.
        await socket.ack("gen_unknown", 5)
        for _ in range(3):
            await socket.ack(generation, 0)
        assert await quiet(socket)
        events += await to_the_end(socket, generation, events[-1]["seq"])
    await exact(stack, generation, events)


async def test_an_acknowledgement_from_the_future_is_one_of_what_was_sent(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted(high_water_tokens=MARK)
        generation = accepted["generation"]
        events = await outstanding(socket, generation, MARK)
        await socket.ack(generation, 1_000_000)
        events += await outstanding(socket, generation, events[-1]["seq"] + MARK)
        # It was not taken as leave for everything that comes.
        assert await quiet(socket)
        assert events[-1]["seq"] < 256
        events += await to_the_end(socket, generation, events[-1]["seq"])
    await exact(stack, generation, events)


@pytest.mark.parametrize("mark", [1, 3])
async def test_a_mark_of_a_few_tokens(stack: Stack, mark: int) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted(high_water_tokens=mark)
        events = await to_the_end(socket, accepted["generation"])
    await exact(stack, accepted["generation"], events)


async def test_a_connection_that_is_reset_is_gone_on_from_what_arrived(stack: Stack) -> None:
    async with between(stack.url) as proxy:
        async with chatting(stack, url=proxy.url, origin=proxy.url) as socket:
            accepted = await socket.accepted()
            generation = accepted["generation"]
            events = await socket.until("tokens")
            proxy.reset_all()
        for _ in range(5):
            async with chatting(stack, url=proxy.url, origin=proxy.url) as socket:
                await socket.resume(generation, events[-1].get("seq", 0))
                events += await socket.until("tokens", "finished")
                if events[-1]["type"] == "finished":
                    break
                await socket.ack(generation, events[-1]["seq"])
                proxy.reset_all()
        async with chatting(stack) as socket:
            if events[-1]["type"] != "finished":
                await socket.resume(generation, events[-1]["seq"])
                events += await to_the_end(socket, generation, events[-1]["seq"])
    await exact(stack, generation, events)


async def test_two_resumes_racing_on_one_socket(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted()
        generation = accepted["generation"]
        await socket.until("tokens")
    async with chatting(stack) as socket:
        for _ in range(4):
            await socket.resume(generation)
        events: list[Event] = []
        while not events or events[-1]["type"] != "finished":
            events += await socket.until("resumed", "tokens", "finished", "error")
            if events[-1]["type"] == "tokens":
                await socket.ack(generation, events[-1]["seq"])
    refused = [event for event in events if event["type"] == "error"]
    assert [event["error"]["code"] for event in refused] == ["already_reading"] * 3
    # Nothing says that the one that it reads has ended.
    assert {event["generation"] for event in refused} == {None}
    await exact(stack, generation, events)


async def test_two_sockets_read_the_same_answer(stack: Stack) -> None:
    async with chatting(stack) as one, chatting(stack) as two:
        accepted = await one.accepted()
        generation = accepted["generation"]
        await two.resume(generation)
        ours, theirs = await asyncio.gather(
            to_the_end(one, generation), to_the_end(two, generation)
        )
    await exact(stack, generation, ours)
    await exact(stack, generation, theirs)


async def test_what_cannot_be_resumed(stack: Stack) -> None:
    async with reader(stack) as application:
        of_a_key = (await application.ask()).generation_id
    async with chatting(stack) as socket, chatting(stack, stack.globex.session) as stranger:
        mine = (await socket.accepted())["generation"]
        await socket.stop(mine)
        last = (await socket.until("finished"))[-1]["seq"]
        refusals = [
            (stranger, mine, 0, "generation_not_found"),
            (socket, of_a_key, 0, "generation_not_found"),
            (socket, "gen_unknown", 0, "generation_not_found"),
            (socket, "\u0000", 0, "invalid_request"),
            (socket, "", 0, "invalid_request"),
            (socket, mine, last + 1, "invalid_position"),
            (socket, mine, -1, "invalid_request"),
            (socket, mine, "0", "invalid_request"),
        ]
        for who, generation, after, code in refusals:
            await who.resume(generation, after)
            event = (await who.until("error", "resumed"))[-1]
            assert event["type"] == "error", (generation, after)
            assert (event["error"]["code"], event["ref"]) == (code, "again")
        with_a_mark = {"type": "resume", "ref": "again", "generation": mine}
        await socket.connection.send(json.dumps(with_a_mark | {"high_water_tokens": 0}))
        assert (await socket.until("error"))[-1]["error"]["code"] == "invalid_request"
        await socket.resume(mine, last)
        assert (await socket.until("finished"))[-1]["seq"] == last
