from __future__ import annotations

import json
from typing import Any

import pytest

from web.limits import BodyLimit


async def asked(
    chunks: list[bytes], *, length: str | None, limit: int = 10
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """What was sent back, and what the application got to read."""
    sent: list[dict[str, Any]] = []
    read: list[bytes] = []
    messages = [
        {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1}
        for index, chunk in enumerate(chunks)
    ]

    async def app(_scope: object, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            read.append(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length.encode())]
    await BodyLimit(app, max_bytes=limit)({"type": "http", "headers": headers}, receive, send)
    return sent, read


@pytest.mark.parametrize("length", ["10", None])
async def test_a_body_up_to_the_limit_passes(length: str | None) -> None:
    sent, read = await asked([b"12345", b"67890"], length=length)
    assert sent[0]["status"] == 200
    assert b"".join(read) == b"1234567890"


async def test_an_announced_body_over_the_limit_is_refused_unread() -> None:
    sent, read = await asked([b"12345678901"], length="11")
    assert sent[0]["status"] == 413
    assert read == []
    error = json.loads(sent[1]["body"])["error"]
    assert (error["code"], error["type"]) == ("request_too_large", "invalid_request_error")


@pytest.mark.parametrize("length", [None, "3"])
async def test_a_body_that_grows_over_the_limit_is_refused_where_it_does(
    length: str | None,
) -> None:
    sent, read = await asked([b"12345", b"67890", b"1", b"2"], length=length)
    assert [message.get("status") for message in sent] == [413, None]
    assert b"".join(read) == b"1234567890"


@pytest.mark.parametrize("length", ["-1", "1e3", "0x5", "５"])
async def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    sent, read = await asked([b"1"], length=length)
    assert sent[0]["status"] == 413
    assert read == []
