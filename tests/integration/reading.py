"""A client of event streams that keeps everything it was told, and goes on where it was cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking


@dataclass(frozen=True, slots=True)
class Event:
    """id: the token count it carries; comment: text of a comment, which is no event"""

    id: int | None = None
    name: str = "message"
    data: str = ""
    comment: str = ""


class EventParser:
    """Bytes as they come, in pieces of any size, to events, by the rules of the HTML standard."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._fields: dict[str, str] = {}
        self._after_cr = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        for byte in piece:
            if byte == 0x0A and self._after_cr:
                self._after_cr = False
                continue
            self._after_cr = byte == 0x0D
            if byte in (0x0A, 0x0D):
                line = self._line.decode()
                self._line.clear()
                yield from self._take(line)
            else:
                self._line.append(byte)

    def _take(self, line: str) -> Iterator[Event]:
        if line.startswith(":"):
            yield Event(comment=line[1:].strip())
        elif line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
        elif self._fields:
            fields, self._fields = self._fields, {}
            number = int(fields["id"]) if "id" in fields else None
            yield Event(number, fields.get("event", "message"), fields.get("data", ""))


@dataclass(slots=True)
class Reading:
    """One answer as its client has it. seq: where it goes on from; done: `[DONE]` has come."""

    generation_id: str = ""
    text: str = ""
    seq: int = 0
    done: bool = False
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    missed: int = 0
    error: dict[str, Any] | None = None
    events: list[Event] = field(default_factory=list)
    replayed: bool = False

    @property
    def comments(self) -> list[str]:
        return [event.comment for event in self.events if event.comment]

    def take(self, event: Event) -> None:
        self.events.append(event)
        if event.comment:
            return
        if event.data == "[DONE]":
            self.done = True
            return
        body = json.loads(event.data)
        if event.name == "gap":
            self.missed += body["missed"]
        elif "error" in body:
            self.error = body["error"]
        elif event.name == "message":
            self._take_chunk(event, body)

    def _take_chunk(self, event: Event, body: dict[str, Any]) -> None:
        self.usage = body.get("usage") or self.usage
        for choice in body["choices"]:
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            content = choice["delta"].get("content")
            if content:
                assert event.id is not None, "text without a position"
                assert event.id > self.seq, f"text of {event.id} behind {self.seq}"
                self.text += content
        if event.id is not None:
            self.seq = event.id


class Reader:
    """Reads answers of one principal; a network error ends a reading as it stands."""

    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False
        )

    async def ask(
        self, reading: Reading | None = None, *, key: str | None = None, **fields: Any
    ) -> Reading:
        """Ask anew, and read as far as it comes."""
        headers = {"Idempotency-Key": key} if key else {}
        body = asking(stream=True, **{"stream_options": {"include_usage": True}} | fields)
        request = self._client.build_request("POST", CHAT, json=body, headers=headers)
        return await self._read(request, reading or Reading())

    async def go_on(self, reading: Reading) -> Reading:
        """Reconnect, behind what has arrived."""
        path = f"/v1/generations/{reading.generation_id}/events"
        headers = {"Last-Event-ID": str(reading.seq)} if reading.seq else {}
        reading.error = None
        return await self._read(self._client.build_request("GET", path, headers=headers), reading)

    async def to_the_end(self, reading: Reading) -> Reading:
        """Reconnect as often as it takes."""
        async with asyncio.timeout(90):
            while not reading.done:
                await self.go_on(reading)
                if reading.error is not None:
                    assert reading.error["code"] in PASSING, reading.error
                    await asyncio.sleep(0.1)
        return reading

    async def _read(self, request: httpx.Request, reading: Reading) -> Reading:
        parser = EventParser()
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await response.aread()
                    reading.error = response.json()["error"]
                    return reading
                reading.generation_id = response.headers["X-Generation-Id"]
                reading.replayed = "X-Replayed" in response.headers
                async for piece in response.aiter_bytes():
                    for event in parser.feed(piece):
                        reading.take(event)
            finally:
                await response.aclose()
        except httpx.TransportError:
            pass  # what a network does; the caller sees how far the answer has come
        return reading

    async def state(self, generation_id: str) -> dict[str, Any]:
        response = await self._client.get(f"/v1/generations/{generation_id}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def end(self, generation_id: str) -> None:
        response = await self._client.delete(f"/v1/generations/{generation_id}")
        assert response.status_code == 200, response.text

    async def aclose(self) -> None:
        await self._client.aclose()


# Errors after which a client comes back by itself.
PASSING = {"server_restarting", "service_unavailable"}


@asynccontextmanager
async def reader(stack: Stack, *, url: str = "", key: str = "") -> AsyncIterator[Reader]:
    """acme's application, unless another key is given."""
    opened = Reader(url or stack.url, key or stack.acme.key)
    try:
        yield opened
    finally:
        await opened.aclose()


@asynccontextmanager
async def beginning(
    by: Reader, *, tokens: int = 3, key: str | None = None, **fields: Any
) -> AsyncIterator[Reading]:
    """An answer that is being read inside this context, and has so many tokens already."""
    reading = Reading()
    task = asyncio.create_task(by.ask(reading, key=key, **fields))
    try:
        async with asyncio.timeout(60):
            while reading.seq < tokens and not task.done():
                await asyncio.sleep(0.005)
        assert reading.seq >= tokens, reading
        yield reading
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def seq_reached(stack: Stack, generation_id: str, seq: int) -> None:
    """Until the log has so many tokens."""
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(stack.logged, generation_id))[1] < seq:
            await asyncio.sleep(0.02)
