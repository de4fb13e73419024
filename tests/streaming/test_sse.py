from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import pytest
from openai._streaming import SSEDecoder

from kernel.errors import EngineLost
from streaming import sse


@pytest.mark.parametrize("text", ["plain", "çağlayan 🌊", "line\nline\r\n\r", "data: x\n\n", '"\\'])
def test_an_event_is_whole_and_one_line(text: str) -> None:
    raw = sse.event({"text": text}, seq=7)
    head, data, rest = raw.split(b"\n", 2)
    assert (head, rest) == (b"id: 7", b"\n")
    assert json.loads(data.removeprefix(b"data: ")) == {"text": text}
    assert b"\r" not in raw
    raw.decode()


def test_an_event_without_a_position_has_no_id() -> None:
    assert sse.event({"a": 1}) == b'data: {"a":1}\n\n'


def test_a_comment_is_nothing_to_a_client() -> None:
    assert sse.comment("waiting") == b": waiting\n"


def test_a_comment_behind_an_id_is_nothing_to_the_official_client() -> None:
    told = [sse.event({"n": 1}, seq=1), sse.comment("waiting"), sse.event({"n": 2}, seq=2)]
    found = SSEDecoder().iter_bytes(iter([*told, sse.comment("waiting"), sse.DONE]))
    assert [each.data for each in found] == ['{"n":1}', '{"n":2}', "[DONE]"]


def test_an_error_has_openais_shape() -> None:
    raw = sse.error_event(EngineLost("Lost."))
    assert json.loads(raw.removeprefix(b"data: "))["error"] == {
        "message": "Lost.",
        "type": "server_error",
        "param": None,
        "code": "engine_lost",
    }


@pytest.mark.parametrize("read", [1, 2, 3])
async def test_however_far_it_is_read_the_source_is_closed(read: int) -> None:
    closed: list[bool] = []

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            for number in range(5):
                yield b"%d" % number
        finally:
            closed.append(True)

    events = source()
    stream = sse.EventStream(await anext(events), events)
    got = []
    iterator = aiter(stream)
    for _ in range(read):
        got.append(await anext(iterator))
    await iterator.aclose()  # type: ignore[attr-defined]
    assert got == [b"0", b"1", b"2"][:read]
    assert closed == [True]


async def test_a_stream_is_neither_cached_nor_buffered_by_proxies() -> None:
    async def source() -> AsyncGenerator[bytes, None]:
        yield b""

    stream = sse.EventStream(b"", source())
    assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "no-cache" in stream.headers["Cache-Control"]
    assert stream.headers["X-Accel-Buffering"] == "no"
