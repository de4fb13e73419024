"""A socket is for pages of its own origin alone: scheme, host and port, whoever is signed in."""

from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.ground.stack import Stack


def socket_url(stack: Stack, path: str = "/ws/chat/") -> str:
    return stack.url.replace("http", "ws", 1) + path


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param(None, id="none"),
        pytest.param("null", id="null"),
        pytest.param("https://HOST:PORT", id="another scheme"),
        pytest.param("ws://HOST:PORT", id="the socket's scheme"),
        pytest.param("http://HOST", id="no port"),
        pytest.param("http://HOST:1", id="another port"),
        pytest.param("http://chat.HOST:PORT", id="a subdomain"),
        pytest.param("http://HOST.evil.example:PORT", id="a longer host"),
        pytest.param("http://HOST:PORT@evil.example", id="a name before the host"),
        pytest.param("http://localhost:PORT", id="another name of the host"),
        pytest.param("http://HOST:PORT/", id="an address"),
        pytest.param("http://HOST, http://evil.example", id="two"),
        pytest.param("file://", id="a file"),
        pytest.param("chrome-extension://abc", id="an extension"),
    ],
)
async def test_a_foreign_page_hears_nothing(stack: Stack, origin: str | None) -> None:
    headers = {"Cookie": f"sessionid={stack.acme.session}"}
    if origin is not None:
        host, port = stack.url.removeprefix("http://").split(":")
        headers["Origin"] = origin.replace("HOST", host).replace("PORT", port)
    async with connect(socket_url(stack), additional_headers=headers) as connection:
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403


@pytest.mark.parametrize("origin", ["", "http://127.0.0.1:80.evil.example"])
async def test_what_is_no_origin_is_no_handshake(stack: Stack, origin: str) -> None:
    headers = {"Cookie": f"sessionid={stack.acme.session}", "Origin": origin}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(socket_url(stack), additional_headers=headers):
            pass
    assert refused.value.response.status_code == 400


@pytest.mark.parametrize("path", ["/ws/", "/ws/nothing/", "/chat/", "/v1/chat/completions"])
async def test_where_there_is_no_socket(stack: Stack, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(socket_url(stack, path), origin=stack.url):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == 403
