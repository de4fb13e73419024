"""What a reader doesn't take, the application doesn't send, and the server doesn't hold."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import tempfile

import pytest
import websockets

from tests.web.backpressure.applications import pattern
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

MB = 1_000_000
FLOOD = "/flood?total=200000000&piece=65536"
# Mark, kernel buffers of both ends and TLS records; without backpressure it is all of the 200 MB.
FEW_MB = 6 * MB
LITTLE_MEMORY = 40 * MB
WAYS = {
    "http": request_head("GET", FLOOD),
    "http with a length": request_head("GET", FLOOD + "&declared=1"),
    "http 1.0": request_head("GET", FLOOD).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "websocket": upgrade_head(FLOOD),
}


def never_reads(server: Served, head: bytes) -> socket.socket:
    sock = server.socket(receive_buffer=65536)
    if server.tls:
        sock = server.tls.wrap_socket(sock, server_hostname="localhost")
    sock.sendall(head)
    return sock


async def assert_held_back(server: Served, head: bytes) -> None:
    before = (await server.json("/state"))["rss"]
    with await asyncio.to_thread(never_reads, server, head):
        state = await server.settled("sent")
        assert state["seen"]["sent"] < FEW_MB
        assert state["rss"] - before < LITTLE_MEMORY
        assert state["stats"]["waiting_sends"] == 1
        assert state["stats"]["buffered_bytes"] < MB
    await server.until_seen("raised ClientGone")


@pytest.mark.parametrize("way", WAYS)
async def test_who_never_reads_is_sent_little(serve: Serve, way: str) -> None:
    await assert_held_back(serve(), WAYS[way])


@pytest.mark.parametrize("way", ["http", "websocket"])
async def test_the_mark_holds_under_tls(serve_tls: Serve, way: str) -> None:
    await assert_held_back(serve_tls(), WAYS[way])


async def test_the_mark_is_configurable(serve: Serve) -> None:
    server = serve("--high-water", "4096", "--send-buffer", "8192")
    head = request_head("GET", "/flood?total=200000000&piece=1024")
    with await asyncio.to_thread(never_reads, server, head):
        state = await server.settled("sent")
    assert state["stats"]["buffered_bytes"] <= 4096 + 2048
    assert state["seen"]["sent"] < MB  # the kernel hides no more than it was allowed


async def test_a_large_message_is_not_held_twice(serve: Serve) -> None:
    server = serve()
    before = (await server.json("/state"))["rss"]
    head = request_head("GET", "/flood?total=60000000&once=1")
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(head)
        state = await server.until(lambda state: state["stats"]["waiting_sends"] == 1)
        # The application's own copy, and no other.
        assert state["rss"] - before < 100 * MB
        assert state["stats"]["buffered_bytes"] < MB
        digest = hashlib.sha256()
        left, _ = 60 * MB, await reader.readuntil(b"\r\n\r\n")
        while left:  # piece by piece, each a chunk
            size = int(await reader.readline(), 16)
            digest.update(await reader.readexactly(size))
            assert await reader.readexactly(2) == b"\r\n"
            left -= size
        assert await reader.readexactly(5) == b"0\r\n\r\n"
    assert digest.digest() == hashlib.sha256(b"".join(pattern(60 * MB, 65536))).digest()


async def test_a_reader_of_a_few_bytes_gets_all_of_them(serve: Serve) -> None:
    server = serve("--high-water", "2048", "--send-buffer", "4096")
    reader, writer = await server.connect(receive_buffer=4096)
    async with closing(writer):
        writer.write(request_head("GET", "/flood?total=40000&piece=1000&declared=1"))
        head = await reader.readuntil(b"\r\n\r\n")
        received = b""
        while len(received) < 40_000:
            received += await reader.read(97)
            await asyncio.sleep(0)
    assert b"Content-Length: 40000" in head
    assert received == b"".join(pattern(40_000, 1000))


async def test_a_slow_reader_holds_nobody_else_up(serve: Serve) -> None:
    server = serve()
    reader, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.write(request_head("GET", FLOOD))
        await reader.readuntil(b"\r\n\r\n")
        slow = asyncio.create_task(one_byte_after_the_other(reader))
        for _ in range(3):
            _, body = await server.request("/flood?total=1000000&declared=1")
            assert body == b"".join(pattern(MB, 65536))
        state = await server.json("/state")
        assert state["seen"]["sent"] < FEW_MB + 3 * MB
        slow.cancel()


async def one_byte_after_the_other(reader: asyncio.StreamReader) -> None:
    while await reader.read(1):
        await asyncio.sleep(0.2)


async def test_a_sender_whom_nobody_blocks_shares_the_loop(serve: Serve) -> None:
    server = serve("--high-water", "16000000")
    _, body = await server.request("/flood-and-turns?total=2000000&piece=100&declared=1")
    assert len(body) == 2 * MB
    assert (await server.seen())["turns"] >= 2 * MB // 65536


async def test_the_mark_holds_on_a_unix_socket(serve_at: Serve) -> None:
    with tempfile.TemporaryDirectory(prefix="nehir-") as folder:  # a short path
        path = f"{folder}/web.sock"
        server = serve_at("tcp:{port}:interface=127.0.0.1", "-u", path)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.sendall(request_head("GET", FLOOD))
            state = await server.settled("sent")
            assert state["seen"]["sent"] < FEW_MB
        server.signal()
        assert await server.exit_code() == 0


@pytest.mark.parametrize("query", ["piece=65536&declared=1", "piece=1000000&declared=1"])
async def test_a_fast_reader_gets_everything(serve: Serve, query: str) -> None:
    total = 50 * MB
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("GET", f"/flood?total={total}&{query}"))
        await reader.readuntil(b"\r\n\r\n")
        digest = hashlib.sha256()
        for _ in range(50):
            digest.update(await asyncio.wait_for(reader.readexactly(MB), PATIENCE_S))
    piece = int(query.partition("=")[2].partition("&")[0])
    assert digest.digest() == hashlib.sha256(b"".join(pattern(total, piece))).digest()


async def test_a_fast_reader_gets_everything_over_a_websocket(serve: Serve) -> None:
    digest, size = hashlib.sha256(), 0
    url = f"ws://127.0.0.1:{serve().port}/flood?total=50000000&piece=700000"
    async with websockets.connect(url, max_size=None, compression=None) as client:
        async for message in client:
            assert isinstance(message, bytes)
            assert len(message) in (700_000, 50_000_000 % 700_000)
            digest.update(message)
            size += len(message)
    assert size == 50 * MB
    assert digest.digest() == hashlib.sha256(b"".join(pattern(size, 700_000))).digest()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 65537, 300_000])
async def test_messages_of_every_size_come_back(serve: Serve, size: int) -> None:
    url = f"ws://127.0.0.1:{serve().port}/echo"
    async with websockets.connect(url, max_size=None) as client:
        for message in ("ı" * (size // 2) + "x" * (size % 2), b"\0" * size):
            await client.send(message)
            assert await asyncio.wait_for(client.recv(), PATIENCE_S) == message


async def test_messages_sent_at_once_do_not_mix(serve: Serve) -> None:
    url = f"ws://127.0.0.1:{serve().port}/together"
    async with websockets.connect(url, max_size=None) as client:
        messages = [message async for message in client]
    assert sorted(set("".join(map(str, messages)))) == list("abcd")
    assert all(len(message) == 300_000 and len(set(message)) == 1 for message in messages)


async def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    server = serve("--high-water", "8192")
    reader, writer = await server.connect()
    sizes = [100_000, 10, 70_000, 0, 200_000]
    async with closing(writer):
        writer.write(
            b"".join(request_head("GET", f"/flood?total={n}&piece=3000&declared=1") for n in sizes)
        )
        for size in sizes:
            _, body = await read_answer(reader)
            assert body == b"".join(pattern(size, 3000))
        writer.write(request_head("GET", "/hello", "Connection: close"))
        assert b"pid" in await ended(reader)
    assert "Producer was not unregistered" not in server.printed()


async def test_answers_without_a_body_have_none(serve: Serve) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("HEAD", "/flood?total=200000&declared=1"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.write(request_head("GET", "/hello"))
        head, _ = await read_answer(reader)
    assert head.startswith("HTTP/1.1 200")


async def test_tls_delivers_all(serve_tls: Serve) -> None:
    server = serve_tls()
    _, body = await server.request("/flood?total=5000000&declared=1")
    assert body == b"".join(pattern(5 * MB, 65536))
    context = server.tls
    assert isinstance(context, ssl.SSLContext)
    url = f"wss://localhost:{server.port}/flood?total=3000000&piece=300000"
    async with websockets.connect(url, ssl=context, max_size=None) as client:
        assert b"".join([m async for m in client if isinstance(m, bytes)]) == b"".join(
            pattern(3 * MB, 300_000)
        )
