"""Readers that take their time, or all the time there is, and what others notice of them."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import psutil

from inference.messages import Started, Suspended
from tests.conftest import OwnStack
from tests.ground.fault_proxy import between
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking
from tests.integration.chatting import chatting
from tests.integration.reading import Reading, beginning, reader

# Behind them: Twisted's and the kernel's buffers, in small tokens.
SMALL_BUFFERS = ("--high-water", "2048", "--send-buffer", "2048")
TOKENS = 250
MARK = {"high_water_tokens": 16}


async def request_bytes(stack: Stack, **fields: Any) -> bytes:
    body = json.dumps(asking(stream=True, **fields)).encode()
    head = [
        f"POST {CHAT} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {stack.acme.key}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


async def never_reading(stack: Stack, count: int, **fields: Any) -> list[socket.socket]:
    """Connections that ask and never read."""
    host, port = stack.url.removeprefix("http://").split(":")
    opened = []
    loop = asyncio.get_running_loop()
    for number in range(count):
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        plug.setblocking(False)
        await loop.sock_connect(plug, (host, int(port)))
        await loop.sock_sendall(plug, await request_bytes(stack, text=f"q {number}", **fields))
        opened.append(plug)
    return opened


async def test_one_byte_a_second_holds_up_nobody(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="10", NEHIR_DETACH_GRACE_S="60", web_options=SMALL_BUFFERS)
    async with (
        between(stack.url) as proxy,
        reader(stack, url=proxy.url) as slow,
        reader(stack) as by,
    ):
        options = {"include_usage": True} | MARK
        async with beginning(
            slow, text="slow", max_tokens=TOKENS, stream_options=options
        ) as reading:
            proxy.faults.bytes_per_s = 1
            others = await asyncio.gather(
                *(by.ask(text=f"{number}", max_tokens=TOKENS) for number in range(5))
            )
            assert all(other.done for other in others)
            made = stack.logged(reading.generation_id)[1]
            assert made < TOKENS
            assert not reading.done
            # It is held, not suspended: its reader is there.
            while await asyncio.to_thread(stack.held) == 0:
                await asyncio.sleep(0.05)
            proxy.faults.bytes_per_s = None
            async with asyncio.timeout(60):
                while not reading.done:
                    await asyncio.sleep(0.01)
        assert (reading.text, TOKENS) == stack.logged(reading.generation_id)


async def test_a_network_that_swallows_everything(own_stack: OwnStack) -> None:
    """It is held, then suspended; when the network is back, the very same connection goes on."""
    stack = own_stack(NEHIR_FAKE_ITL_MS="10", NEHIR_DETACH_GRACE_S="2", web_options=SMALL_BUFFERS)
    async with between(stack.url) as proxy, reader(stack, url=proxy.url) as by:
        options = {"include_usage": True} | MARK
        async with beginning(by, max_tokens=TOKENS, stream_options=options) as reading:
            proxy.faults.swallow = True
            checkpoint = await asyncio.to_thread(stack.suspended, reading.generation_id)
            assert checkpoint["seq"] < TOKENS
            proxy.faults.swallow = False
            async with asyncio.timeout(60):
                while not reading.done:
                    await asyncio.sleep(0.01)
    assert (reading.text, TOKENS) == stack.logged(reading.generation_id)
    settled = await asyncio.to_thread(stack.settled, reading.generation_id)
    assert (settled["state"], settled["output_tokens"]) == ("finished", TOKENS)


async def test_one_that_is_held_for_too_long_waits_in_front_of_the_engine(
    own_stack: OwnStack,
) -> None:
    """Its reader is there, so it is put back at once; it goes on when there is room again."""
    stack = own_stack(
        NEHIR_FAKE_ITL_MS="10",
        NEHIR_DETACH_GRACE_S="60",
        NEHIR_HOLD_LIMIT_S="1",
        web_options=SMALL_BUFFERS,
    )
    async with between(stack.url) as proxy, reader(stack, url=proxy.url) as by:
        options = {"include_usage": True} | MARK
        async with beginning(by, max_tokens=TOKENS, stream_options=options) as reading:
            proxy.faults.swallow = True
            async with asyncio.timeout(60):
                while not (stays := await asyncio.to_thread(stays_of, stack, reading))[1:]:
                    await asyncio.sleep(0.05)
            assert stays == ["held", "started"]
            made = stack.logged(reading.generation_id)[1]
            assert made < TOKENS
            proxy.faults.swallow = False
            async with asyncio.timeout(60):
                while not reading.done:
                    await asyncio.sleep(0.01)
    assert (reading.text, TOKENS) == stack.logged(reading.generation_id)
    settled = await asyncio.to_thread(stack.settled, reading.generation_id)
    assert (settled["state"], settled["output_tokens"]) == ("finished", TOKENS)


def stays_of(stack: Stack, reading: Reading) -> list[str]:
    """What the log says from the first suspension on, tokens apart."""
    found: list[str] = []
    for entry in stack.log(reading.generation_id):
        if isinstance(entry, Suspended):
            found.append(entry.reason)
        elif isinstance(entry, Started) and found:
            found.append("started")
    return found


async def test_clients_that_never_read_are_held_and_others_read_on(own_stack: OwnStack) -> None:
    stack = own_stack(
        NEHIR_FAKE_ITL_MS="5",
        NEHIR_ENGINE_MAX_RUNNING="400",
        NEHIR_DETACH_GRACE_S="3",
        web_options=SMALL_BUFFERS,
    )
    assert stack.web is not None
    web = psutil.Process(stack.web.pid)
    plugs = await never_reading(stack, 100, max_tokens=TOKENS, stream_options=MARK)
    try:
        async with reader(stack) as by:
            quick = await by.ask(text="quick", max_tokens=TOKENS)
            assert (quick.done, quick.text) == (True, stack.logged(quick.generation_id)[0])
            query = "SELECT seq FROM inference_checkpoint"
            async with asyncio.timeout(60):
                while len(found := stack.store.rows(query)) < 100:
                    await asyncio.sleep(0.1)
            assert max(row["seq"] for row in found) < TOKENS
            before = web.memory_info().rss
            # They stay, and nothing grows for them.
            for _ in range(3):
                assert (await by.ask(text="quick", max_tokens=TOKENS)).done
            assert web.memory_info().rss - before < 16 * 2**20
            assert stack.store.rows(query) == found
    finally:
        for plug in plugs:
            plug.close()


async def test_a_socket_that_never_reads_and_never_acknowledges(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="5", NEHIR_DETACH_GRACE_S="60", web_options=SMALL_BUFFERS)
    async with (
        between(stack.url) as proxy,
        chatting(stack, url=proxy.url, origin=proxy.url) as chat,
        reader(stack) as by,
    ):
        accepted = await chat.accepted(high_water_tokens=32)
        proxy.faults.swallow = True
        while await asyncio.to_thread(stack.held) == 0:
            await asyncio.sleep(0.05)
        made = stack.logged(accepted["generation"])[1]
        assert made <= 2 * 32
        assert (await by.ask(max_tokens=TOKENS)).done
        assert stack.logged(accepted["generation"])[1] == made
        proxy.reset_all()


async def test_delays_change_nothing_but_the_time(stack: Stack) -> None:
    async with between(stack.url, delay_s=0.2) as proxy, reader(stack, url=proxy.url) as by:
        reading: Reading = await by.ask(max_tokens=100)
    assert reading.done
    assert (reading.text, reading.seq) == stack.logged(reading.generation_id)
