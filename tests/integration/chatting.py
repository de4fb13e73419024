"""A browser's end of the chat socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.ground.stack import Stack

Event = dict[str, Any]


class Socket:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def next(self) -> Event:
        async with asyncio.timeout(30):
            frame = await self.connection.recv()
        event: Event = json.loads(frame)
        return event

    async def until(self, *kinds: str, generation: str | None = None) -> list[Event]:
        """The events up to the first of these kinds; those about models are left out."""
        found: list[Event] = []
        while True:
            event = await self.next()
            if event["type"] in ("hello", "models") and event["type"] not in kinds:
                continue
            found.append(event)
            if event["type"] in kinds and generation in (None, event.get("generation")):
                return found

    async def say(self, text: str = "hi", *, ref: str = "r", **fields: Any) -> None:
        message = {"type": "send", "ref": ref, "model": "fake", "text": text}
        await self.connection.send(json.dumps(message | fields))

    async def stop(self, generation: str) -> None:
        await self.connection.send(json.dumps({"type": "stop", "generation": generation}))

    async def ack(self, generation: str, seq: Any) -> None:
        message = {"type": "ack", "generation": generation, "seq": seq}
        await self.connection.send(json.dumps(message))

    async def resume(self, generation: str, after_seq: Any = 0, **fields: Any) -> None:
        message = {"type": "resume", "ref": "again", "generation": generation}
        await self.connection.send(json.dumps(message | {"after_seq": after_seq} | fields))

    async def accepted(self, text: str = "hi", **fields: Any) -> Event:
        await self.say(text, **fields)
        return (await self.until("accepted"))[-1]

    async def close_code(self) -> int:
        """The code with which the other end closes."""
        with pytest.raises(ConnectionClosed) as closed:
            await self.until("never")
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


@asynccontextmanager
async def chatting(
    stack: Stack, session: str | None = "", *, origin: str | None = None, url: str = ""
) -> AsyncIterator[Socket]:
    """session: of acme's member unless another is given; None for nobody's."""
    cookie = stack.acme.session if session == "" else session
    base = url or stack.url
    headers = {} if cookie is None else {"Cookie": f"sessionid={cookie}"}
    async with connect(
        base.replace("http", "ws", 1) + "/ws/chat/",
        additional_headers=headers,
        origin=base if origin is None else origin,  # type: ignore[arg-type]
    ) as connection:
        yield Socket(connection)
