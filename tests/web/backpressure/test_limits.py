"""What a client may send, how slowly, and how much of it waits for an application."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct

import pytest
import websockets

from tests.web.backpressure.conftest import Serve
from tests.web.backpressure.served import (
    PATIENCE_S,
    Served,
    closing,
    ended,
    read_answer,
    request_head,
    upgrade_head,
)

FLOOD = "/flood?total=200000000"


async def written(writer: asyncio.StreamWriter, data: bytes, times: int) -> int:
    """Bytes that could be written before nothing moved any more."""
    for count in range(times):
        writer.write(data)
        try:
            await asyncio.wait_for(writer.drain(), 3)
        except TimeoutError:
            return count * len(data)
    raise AssertionError("the server read everything")


def masked_frame(payload: bytes) -> bytes:
    """A client's binary frame, masked with zeros."""
    size = len(payload)
    long = struct.pack("!BBQ", 0x82, 0x80 | 127, size)
    head = long if size >= 1 << 16 else bytes((0x82, 0x80 | size))
    return head + bytes(4) + payload


# -- Readers that stopped


@pytest.mark.parametrize("head", [request_head("GET", FLOOD), upgrade_head(FLOOD)])
async def test_a_stalled_reader_is_evicted(serve: Serve, head: bytes) -> None:
    server = serve("--stall-timeout", "1")
    _, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.transport.pause_reading()
        writer.write(head)
        state = await server.until(lambda state: state["stats"]["evicted_stalls"] == 1)
        await server.until_seen("raised ClientGone")
    assert state["stats"]["waiting_sends"] == 0


async def test_a_slow_reader_is_not_evicted(serve: Serve) -> None:
    server = serve("--stall-timeout", "2", "--high-water", "65536")
    reader, writer = await server.connect(receive_buffer=16384)
    async with closing(writer):
        writer.write(request_head("GET", FLOOD))
        for _ in range(40):  # for several times the limit
            await reader.read(16384)
            await asyncio.sleep(0.2)
        stats = await server.stats()
    assert stats["evicted_stalls"] == 0


async def test_an_idle_connection_is_not_stalled(serve: Serve) -> None:
    server = serve("--stall-timeout", "0.5", "--header-timeout", "0.5")
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/echo") as client:
        reader, writer = await server.connect()
        async with closing(writer):
            await asyncio.sleep(3)
            writer.write(request_head("GET", "/hello"))
            assert (await read_answer(reader))[0].startswith("HTTP/1.1 200")
        await client.send("still here")
        assert await client.recv() == "still here"


async def test_the_rest_of_an_answer_is_evicted_too(serve: Serve) -> None:
    """The application is done; what it left waits for a reader who doesn't come."""
    server = serve("--stall-timeout", "1", "--high-water", "10000000")
    _, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.transport.pause_reading()
        writer.write(request_head("GET", "/flood?total=9000000&once=1", "Connection: close"))
        state = await server.until(lambda state: state["stats"]["evicted_stalls"] == 1)
    assert state["seen"]["sent"] == 9_000_000


# -- Slow requests


@pytest.mark.parametrize(
    "start",
    [
        b"GET /hello HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        b"GET /hel",
        request_head("GET", "/hello") + b"GET /hello HTTP/1.1\r\nX-A: ",
    ],
)
async def test_headers_that_trickle_are_cut_off(serve: Serve, start: bytes) -> None:
    server = serve("--header-timeout", "1")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(start)
        answer = asyncio.create_task(ended(reader))
        while not answer.done():
            writer.write(b"a")
            await asyncio.sleep(0.1)
    assert b"HTTP/1.1 408" in await answer
    assert (await server.stats())["timed_out_requests"] == 1


async def test_a_body_without_progress_is_cut_off(serve: Serve) -> None:
    server = serve("--header-timeout", "1")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("POST", "/body", "Content-Length: 1000"))
        answer = asyncio.create_task(ended(reader))
        while not answer.done():
            writer.write(b"a")
            await asyncio.sleep(0.1)
    assert (await answer).startswith(b"HTTP/1.1 408")


async def test_a_body_that_comes_along_may_take_longer(serve: Serve) -> None:
    server = serve("--header-timeout", "1")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("POST", "/body", "Content-Length: 30000"))
        for _ in range(30):
            writer.write(b"a" * 1000)
            await asyncio.sleep(0.1)
        head, body = await read_answer(reader)
    assert head.startswith("HTTP/1.1 200")
    assert b'"bytes": 30000' in body


# -- Large requests


@pytest.mark.parametrize("lines", [["X-Large: " + "a" * 20_000], ["X-Many: a"] * 600])
async def test_headers_have_a_limit(serve: Serve, lines: list[str]) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/hello", *lines))
        assert (await ended(reader)).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("head", [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
async def test_nonsense_is_refused(serve: Serve, head: bytes) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(head)
        assert (await ended(reader)).startswith(b"HTTP/1.1 400")


async def test_too_large_a_body_is_refused_by_its_length(serve: Serve) -> None:
    server = serve("--max-body", "100000")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(
            request_head("POST", "/body", "Content-Length: 100001", "Expect: 100-continue")
        )
        assert (await ended(reader)).startswith(b"HTTP/1.1 413")
    stats = await server.stats()
    assert (stats["refused_bodies"], stats["requests"]) == (1, 1)


async def test_too_large_a_body_is_refused_while_it_comes(serve: Serve) -> None:
    server = serve("--max-body", "100000")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("POST", "/body", "Transfer-Encoding: chunked"))
        piece = b"a" * 60_000
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) * 2)
        assert (await ended(reader)).startswith(b"HTTP/1.1 413")
    assert (await server.stats())["refused_bodies"] == 1


async def test_a_body_at_the_limit_arrives(serve: Serve) -> None:
    server = serve("--max-body", "1000000")
    data = os.urandom(1_000_000)
    length = f"Content-Length: {len(data)}"
    head, body = await server.request("/body", length, body=data)
    assert head.startswith("HTTP/1.1 200")
    assert hashlib.sha256(data).hexdigest().encode() in body


@pytest.mark.parametrize("size", [0, 65535, 65536, 65537])
async def test_bodies_come_in_pieces(serve: Serve, size: int) -> None:
    server = serve()
    _, body = await server.request("/body", f"Content-Length: {size}", body=b"x" * size)
    assert f'"bytes": {size}'.encode() in body


async def test_waiting_bodies_are_not_held_in_memory(serve: Serve) -> None:
    server = serve()
    before = (await server.json("/state"))["rss"]
    body = b"a" * 8_000_000
    writers = []
    for _ in range(10):
        _, writer = await server.connect()
        writer.write(request_head("POST", "/slow", f"Content-Length: {len(body)}") + body)
        await writer.drain()
        writers.append(writer)
    state = await server.until(lambda state: state["seen"].get("slow began") == 10)
    assert state["rss"] - before < 30_000_000
    for writer in writers:
        writer.transport.abort()


# -- Clients that flood


async def flooded(server: Served, frame: bytes, times: int) -> int:
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(upgrade_head("/deaf"))
        await reader.readuntil(b"\r\n\r\n")
        before = (await server.json("/state"))["rss"]
        sent = await written(writer, frame, times)
        state = await server.json("/state")
        assert state["rss"] - before < 20_000_000
        await server.request("/release")
        await server.until(lambda state: state["seen"].get("received", 0) >= sent // len(frame))
    return sent


async def test_messages_nobody_receives_are_not_read(serve: Serve) -> None:
    sent = await flooded(serve(), masked_frame(b"x" * 100_000), 1000)
    assert sent < 30_000_000


async def test_many_small_messages_are_bounded_too(serve: Serve) -> None:
    server = serve("--inbound-messages", "10")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(upgrade_head("/deaf"))
        await reader.readuntil(b"\r\n\r\n")
        await written(writer, masked_frame(b"x") * 1000, 4000)
        await server.request("/release")
        state = await server.until(lambda state: state["seen"].get("received", 0) >= 1000)
        assert state["seen"]["received bytes"] == state["seen"]["received"]
        assert state["seen"]["queued"] == 10


async def test_who_sends_on_without_reading_is_not_read_on(serve: Serve) -> None:
    """Requests behind one whose answer waits for its reader."""
    server = serve()
    _, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.transport.pause_reading()
        writer.write(request_head("GET", FLOOD))
        await server.until(lambda state: state["stats"]["waiting_sends"] == 1)
        before = (await server.json("/state"))["rss"]
        sent = await written(writer, request_head("GET", "/hello") * 1000, 2000)
        state = await server.json("/state")
    assert sent < 30_000_000
    assert state["rss"] - before < 10_000_000


# -- Connections


async def test_connections_have_a_limit(serve: Serve) -> None:
    server = serve("--max-connections", "3")
    held = [await server.connect() for _ in range(3)]
    held[0][1].write(request_head("GET", "/hello"))
    await read_answer(held[0][0])
    head, _ = await server.request("/hello")
    assert head.startswith("HTTP/1.1 503")
    assert "Retry-After: 1" in head
    for _, writer in held:
        writer.transport.abort()
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not (await server.request("/hello"))[0].startswith("HTTP/1.1 200"):
        assert asyncio.get_running_loop().time() < deadline
    assert (await server.stats())["refused_connections"] >= 1


async def test_options_are_checked(serve: Serve) -> None:
    server = serve("--high-water", "0")
    assert await server.exit_code() == 2
    assert "must be above 0" in server.printed()
