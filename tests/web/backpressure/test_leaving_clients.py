"""Clients that leave, and applications that fail: each side learns of the other."""

from __future__ import annotations

import asyncio

import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.web.backpressure.conftest import Serve
from tests.web.backpressure.served import (
    PATIENCE_S,
    closing,
    ended,
    read_answer,
    request_head,
    upgrade_head,
)

FLOOD = "/flood?total=200000000"


@pytest.mark.parametrize("head", [request_head("GET", FLOOD), upgrade_head(FLOOD)])
async def test_a_waiting_send_is_released(serve: Serve, head: bytes) -> None:
    server = serve()
    _, writer = await server.connect(receive_buffer=65536)
    async with closing(writer):
        writer.write(head)
        await server.until(lambda state: state["stats"]["waiting_sends"] == 1)
    await server.until_seen("raised ClientGone")
    state = await server.until(lambda state: state["stats"]["requests"] == 1)  # this one
    assert state["stats"]["waiting_sends"] == 0


@pytest.mark.parametrize("query", ["", "?unanswered=1"])
async def test_a_send_after_the_disconnect_raises(serve: Serve, query: str) -> None:
    server = serve()
    _, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", f"/after-disconnect{query}"))
        await server.until_seen("waits for disconnect")
    await server.until_seen("told of disconnect")
    await server.until_seen("raised ClientGone")
    assert "Exception inside application" not in server.printed()


async def test_a_leaving_socket_frees_everything(serve: Serve) -> None:
    server = serve()
    clients = [await websockets.connect(f"ws://127.0.0.1:{server.port}/echo") for _ in range(20)]
    assert (await server.stats())["websocket_connections"] == 20
    for client in clients:
        client.transport.abort()
    state = await server.until(lambda state: state["stats"]["requests"] == 1)  # this one
    assert state["stats"]["websocket_connections"] == 0


async def test_an_error_before_the_answer_is_a_500(serve: Serve) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        for when in ("before", "started"):
            writer.write(request_head("GET", f"/fail?when={when}"))
            answer = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE_S)
            assert answer.startswith(b"HTTP/1.1 500")
            assert b"Content-Type: text/plain" in answer
            assert b"X-Content-Type-Options: nosniff" in answer
        writer.write(request_head("GET", "/hello"))
        assert (await read_answer(reader))[0].startswith("HTTP/1.1 200")
    assert server.printed().count("LookupError: this application fails") == 2


@pytest.mark.parametrize("when", ["middle", "returns", "declared"])
async def test_an_answer_broken_off_looks_broken_off(serve: Serve, when: str) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("GET", f"/fail?when={when}"))
        answer = await ended(reader)
    assert b"half an answer" in answer
    assert not answer.endswith(b"0\r\n\r\n")


async def test_where_only_the_end_ends_an_answer_it_is_reset(serve: Serve) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("GET", "/fail?when=middle").replace(b"HTTP/1.1", b"HTTP/1.0"))
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(-1), PATIENCE_S)


@pytest.mark.parametrize(("declared", "size"), [(10, 5), (5, 10), (5, 0)])
async def test_a_body_of_another_length_is_not_passed_off(
    serve: Serve, declared: int, size: int
) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("GET", f"/wrong-length?declared={declared}&size={size}"))
        writer.write(request_head("GET", "/hello", "Connection: close"))
        answer = await ended(reader)
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"xxxxx" not in answer
    assert f"Content-Length is {declared}, the body {size} bytes" in server.printed()


async def test_a_failing_socket_is_closed_with_1011(serve: Serve) -> None:
    url = f"ws://127.0.0.1:{serve().port}/fails?when=after"
    async with websockets.connect(url) as client:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(client.recv(), PATIENCE_S)
    assert client.close_code == 1011


async def test_a_socket_failing_before_it_is_accepted_is_refused(serve: Serve) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await websockets.connect(f"ws://127.0.0.1:{serve().port}/fails?when=before")
    assert caught.value.response.status_code == 500


async def test_a_socket_whose_application_returned_is_closed(serve: Serve) -> None:
    url = f"ws://127.0.0.1:{serve().port}/fails?when=returns"
    async with websockets.connect(url) as client:
        await asyncio.wait_for(client.wait_closed(), PATIENCE_S)
    assert client.close_code == 1000


async def test_a_bad_handshake_is_refused_and_forgotten(serve: Serve) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(upgrade_head("/echo").replace(b"Version: 13", b"Version: 1"))
        assert (await ended(reader)).startswith(b"HTTP/1.1 400")
    stats = await server.stats()
    assert (stats["websocket_connections"], stats["requests"]) == (0, 1)


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, 1013, 3000, 4401, 4999])
async def test_close_codes_and_reasons_arrive(serve: Serve, code: int) -> None:
    url = f"ws://127.0.0.1:{serve().port}/closes?code={code}&reason=g%C3%BCle%20g%C3%BCle"
    async with websockets.connect(url) as client:
        await asyncio.wait_for(client.wait_closed(), PATIENCE_S)
    assert (client.close_code, client.close_reason) == (code, "güle güle")


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
async def test_codes_that_never_travel_are_refused(serve: Serve, code: int) -> None:
    async with websockets.connect(f"ws://127.0.0.1:{serve().port}/closes?code={code}") as client:
        assert await client.recv() == f"{code} is not a close code"
        await asyncio.wait_for(client.wait_closed(), PATIENCE_S)
    assert client.close_code == 1000


async def test_who_ignores_the_close_handshake_is_dropped(serve: Serve) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(upgrade_head("/closes?code=1012"))
        answer = await ended(reader)  # never answers the close frame
    assert answer.partition(b"\r\n\r\n")[2] == b"\x88\x02" + (1012).to_bytes(2, "big")


@pytest.mark.parametrize(
    ("query", "code"), [("", 4401), ("?goes_on=1", 1006)], ids=["closes", "goes on"]
)
async def test_half_a_message_is_followed_by_a_close_only(
    serve: Serve, query: str, code: int
) -> None:
    """Cancelled in the middle of a message: another would be taken for the rest of it."""
    server = serve()
    url = f"ws://127.0.0.1:{server.port}/interrupted{query}"
    async with websockets.connect(url, max_size=None, compression=None) as client:
        client.transport.pause_reading()
        await server.until(lambda state: state["stats"]["waiting_sends"] == 1)
        await client.send("now")
        await server.until_seen("cancelled in send")
        client.transport.resume_reading()
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(client.recv(), PATIENCE_S)
    assert client.close_code == code
    assert ("raised ClientGone" in await server.seen()) == (code == 1006)
