"""What a proxy might read in one way and we in another (request smuggling): refused, and nothing
of it is served. And addresses without an end.
"""

from __future__ import annotations

import pytest

from tests.web.backpressure.conftest import Serve
from tests.web.backpressure.served import closing, ended, request_head

# What would be served as a second request by a reader that takes the first to end before it.
SMUGGLED = b"0\r\n\r\n" + request_head("GET", "/hello", "X-Smuggled: yes")
LENGTH = f"Content-Length: {len(SMUGGLED)}"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([LENGTH, CHUNKED], id="length and chunks"),
        pytest.param([CHUNKED, LENGTH], id="chunks and length"),
        pytest.param(["Content-Length: 0", LENGTH], id="two lengths"),
        pytest.param([LENGTH, "Content-Length: 0"], id="two lengths, the other way round"),
        pytest.param(["Content-Length: 0, 5"], id="two lengths in a line"),
        pytest.param(["Content-Length: +5"], id="signed length"),
        pytest.param(["Content-Length: -1"], id="negative length"),
        pytest.param(["Content-Length: 0x5"], id="hexadecimal length"),
        pytest.param(["Content-Length: five"], id="no length"),
        pytest.param(["Transfer-Encoding: gzip, chunked"], id="another coding too"),
        pytest.param(["Transfer-Encoding: xchunked"], id="unknown coding"),
        pytest.param([CHUNKED, CHUNKED], id="chunked twice"),
        pytest.param(["Transfer-Encoding : chunked"], id="space before the colon"),
        pytest.param([" Transfer-Encoding: chunked"], id="folded into the line before"),
        pytest.param(["X-A: b\rTransfer-Encoding: chunked"], id="bare CR"),
        pytest.param(["X-A: b\x00c"], id="NUL in a value"),
    ],
)
async def test_a_body_whose_end_is_not_certain_is_refused(serve: Serve, lines: list[str]) -> None:
    server = serve()
    reader, writer = await server.connect()
    async with closing(writer):
        writer.write(request_head("POST", "/body", *lines) + SMUGGLED)
        answer = await ended(reader)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert (await server.seen()).get("/hello", 0) == 0


@pytest.mark.parametrize(
    "chunk",
    [b"-1\r\n", b"0x5\r\nhello\r\n", b"5 \r\nhello\r\n", b"g\r\n", b"5\r\nhelloXX0\r\n\r\n"],
)
async def test_chunks_that_are_none_are_refused(serve: Serve, chunk: bytes) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("POST", "/body", CHUNKED) + chunk)
        assert (await ended(reader)).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("length", [16_385, 100_000])
async def test_an_address_has_a_limit(serve: Serve, length: int) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("GET", "/" + "a" * length))
        answer = await ended(reader)
    assert answer.startswith(b"HTTP/1.1 414")
    assert b"X-Content-Type-Options: nosniff" in answer


async def test_many_headers_that_are_small_have_a_limit_together(serve: Serve) -> None:
    reader, writer = await serve().connect()
    async with closing(writer):
        writer.write(request_head("GET", "/hello", *(f"X-{n}: {'a' * 100}" for n in range(200))))
        assert (await ended(reader)).startswith(b"HTTP/1.1 431")
