"""From the signal to the exit: nothing that can end well is broken off, and nothing holds it up."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from tests.web.backpressure.conftest import Serve
from tests.web.backpressure.served import (
    PATIENCE_S,
    Served,
    closing,
    ended,
    listening_socket,
    read_answer,
    request_head,
    start_process,
)
from web.backpressure.channel import FlowChannel

# Far beyond a test's patience: who exits did not wait for it.
LONG_GRACE = ("--drain-grace", "1000")
SHORT_GRACE = ("--drain-grace", "1")
TCP = "tcp:{port}:interface=127.0.0.1"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_server_exits_at_once(serve: Serve, number: int) -> None:
    server = serve(*LONG_GRACE)
    await server.request("/hello")
    server.signal(number)
    assert await server.exit_code() == 0


async def test_it_stops_listening_and_closes_idle_connections(serve_at: Serve) -> None:
    server = serve_at(TCP, *LONG_GRACE)
    idle_reader, idle_writer = await server.connect()
    reader, writer = await server.connect()
    async with closing(writer), closing(idle_writer):
        idle_writer.write(request_head("GET", "/hello"))
        await read_answer(idle_reader)
        writer.write(request_head("GET", "/answer-when-draining"))
        await server.until_seen("waits for drain")
        server.signal()
        head, _ = await read_answer(reader)
        assert head.startswith("HTTP/1.1 200")
        assert "Connection: close" in head
        assert await ended(reader) == b""
        assert await ended(idle_reader) == b""
        with pytest.raises(ConnectionRefusedError):
            server.socket()
    assert await server.exit_code() == 0


async def test_requests_on_the_way_are_served(serve_at: Serve) -> None:
    """Connections not yet accepted, and a request on an open one, when the signal comes."""
    server = serve_at(TCP, *LONG_GRACE)
    reader, writer = await server.connect()
    writer.write(request_head("GET", "/hello"))
    await read_answer(reader)
    server.signal(signal.SIGSTOP)
    async with closing(writer):
        queued = [await server.connect() for _ in range(5)]
        for _, other in queued:
            other.write(request_head("GET", "/hello"))
        writer.write(request_head("GET", "/hello"))
        server.signal()
        server.signal(signal.SIGCONT)
        for waiting, _ in [(reader, writer), *queued]:
            head, _ = await read_answer(waiting)
            assert head.startswith("HTTP/1.1 200")
            assert await ended(waiting) == b""
    assert await server.exit_code() == 0


async def test_a_stream_ends_itself(serve: Serve) -> None:
    server = serve(*LONG_GRACE)
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/until-drain"))
        await reader.readuntil(b"tick")
        server.signal()
        answer = await ended(reader)
    assert answer.endswith(b"bye\n\r\n0\r\n\r\n")
    assert await server.exit_code() == 0


async def test_a_stream_s_end_and_the_connection_s_come_together(serve_at: Serve) -> None:
    """Its headers said nothing of it; a request sent between the two would be lost."""
    server = serve_at(TCP, *LONG_GRACE)
    with server.socket() as client:
        client.sendall(request_head("GET", "/until-drain"))
        answer = b""
        while b"tick" not in answer:
            answer += await asyncio.to_thread(client.recv, 65536)
        server.signal()
        while not answer.endswith(b"0\r\n\r\n"):
            answer += await asyncio.to_thread(client.recv, 65536)
        client.setblocking(False)
        assert client.recv(1) == b""
    assert await server.exit_code() == 0


def test_a_connection_is_kept_for_a_moment_behind_an_answer() -> None:
    class Server:
        draining = True

    channel = FlowChannel()
    channel.server = Server()
    channel._idle_since = 100.0
    assert not channel.may_close(100.9)
    assert channel.may_close(101.0)
    channel.requests = ["one"]
    assert not channel.may_close(200.0)


async def test_a_stream_that_goes_on_is_cancelled_and_truncated(serve: Serve) -> None:
    server = serve(*SHORT_GRACE)
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/for-ever"))
        await reader.readuntil(b"begun")
        server.signal()
        assert not (await ended(reader)).endswith(b"0\r\n\r\n")
    assert await server.exit_code() == 0
    assert server.printed().count("cancelled") == 1


async def test_who_had_no_answer_yet_gets_a_503(serve: Serve) -> None:
    server = serve(*SHORT_GRACE)
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/slow"))
        await server.until_seen("slow began")
        server.signal()
        answer = await ended(reader)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Connection: close" in answer
    assert await server.exit_code() == 0


async def test_an_application_that_will_not_end_is_left_behind(serve: Serve) -> None:
    server = serve(*SHORT_GRACE)
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/stubborn"))
        await reader.readuntil(b"begun")
        server.signal()
        assert await server.exit_code() == 0
    assert server.printed().count("cancelled and goes on") == 1
    assert "1 applications did not end" in server.printed()


@pytest.mark.parametrize(
    "start",
    [
        b"GET /hello HTTP/1.1\r\nHost: localh",
        b"GET",
        request_head("POST", "/body", "Content-Length: 10") + b"half",
    ],
)
async def test_half_a_request_breaks_nothing(serve: Serve, start: bytes) -> None:
    server = serve(*SHORT_GRACE)
    reader, writer = await server.connect()
    other, other_writer = await server.connect()
    async with closing(writer), closing(other_writer):
        writer.write(start)
        other_writer.write(request_head("GET", "/for-ever"))
        await other.readuntil(b"begun")
        server.signal()
        await ended(other)
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""  # and no reset
    assert await server.exit_code() == 0
    assert server.printed().count("cancelled") == 1
    assert "Traceback" not in server.printed()


async def test_half_a_request_may_be_completed(serve: Serve) -> None:
    server = serve(*LONG_GRACE)
    reader, writer = await server.connect()
    watched, watched_writer = await server.connect()
    async with closing(writer), closing(watched_writer):
        watched_writer.write(request_head("GET", "/until-drain"))
        writer.write(request_head("POST", "/body", "Content-Length: 10") + b"half")
        await watched.readuntil(b"tick")
        server.signal()
        await ended(watched)
        writer.write(b" and l")
        head, body = await read_answer(reader)
    assert "Connection: close" in head
    assert b'"bytes": 10' in body
    assert await server.exit_code() == 0


async def test_a_socket_closes_itself_with_1012(serve: Serve) -> None:
    server = serve(*LONG_GRACE)
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/drain") as client:
        assert await client.recv() == "begun"
        server.signal()
        assert await asyncio.wait_for(client.recv(), PATIENCE_S) == "bye"
        await asyncio.wait_for(client.wait_closed(), PATIENCE_S)
    assert (client.close_code, client.close_reason) == (1012, "come back")
    assert await server.exit_code() == 0


async def test_a_socket_that_goes_on_gets_1012(serve: Serve) -> None:
    server = serve(*SHORT_GRACE)
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/for-ever") as client:
        assert await client.recv() == "begun"
        server.signal()
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(client.recv(), PATIENCE_S)
    assert client.close_code == 1012
    assert await server.exit_code() == 0
    assert server.printed().count("cancelled") == 1


async def test_who_never_reads_does_not_hold_it_up(serve: Serve) -> None:
    server = serve(*SHORT_GRACE)
    _, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.transport.pause_reading()
        writer.write(request_head("GET", "/flood?total=200000000"))
        await server.until(lambda state: state["stats"]["waiting_sends"] == 1)
        server.signal()
        assert await server.exit_code() == 0


async def test_a_second_signal_ends_at_once(serve: Serve) -> None:
    server = serve(*LONG_GRACE)
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", "/for-ever"))
        await reader.readuntil(b"begun")
        server.signal()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(server_exit(server)), 2)
        server.signal()
        assert await server.exit_code() == -signal.SIGTERM


async def server_exit(server: Served) -> None:
    with contextlib.suppress(TimeoutError):
        await server.exit_code()


async def test_two_servers_on_one_socket_lose_nothing(
    tmp_path: Path, running: list[Served]
) -> None:
    """One drains while requests come in: all of them are served."""
    with listening_socket() as sock:
        number, port = sock.fileno(), sock.getsockname()[1]
        for name in ("first", "second"):
            output = tmp_path / f"{name}.log"
            arguments = ("--fd", str(number), *LONG_GRACE)
            process = start_process(*arguments, output=output, pass_fds=(number,))
            running.append(Served(process, port, output))
    first, second = running
    while len({(await first.json("/hello"))["pid"] for _ in range(20)}) < 2:
        await asyncio.sleep(0.1)
    served = asyncio.create_task(ask_until_gone(first))
    await asyncio.sleep(0.3)
    first.signal()
    pids = await served
    assert first.process.returncode == 0
    assert pids[-50:] == [second.process.pid] * 50
    assert first.process.pid in pids


async def ask_until_gone(server: Served) -> list[int]:
    """The process of each answer, until 50 after the server has gone."""
    pids: list[int] = []
    left = 50
    while left:
        answers = await asyncio.gather(*(server.json("/hello") for _ in range(5)))
        pids += [answer["pid"] for answer in answers]
        if server.process.poll() is not None:
            left -= 5
    return pids
