"""Clients that come back when they are told to, and nothing else: any other break is a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed

from inference.engine.fake import word
from inference.engine.tokenizer import FakePromptRenderer
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking
from tests.integration.chatting import Socket, chatting

SERVICE_RESTART = 1012


def expected(text: str, tokens: int) -> str:
    """What the fake engine answers to a single message."""
    prompt = FakePromptRenderer().render([{"role": "user", "content": text}])
    return "".join(word(prompt, position)[1] for position in range(tokens))


@dataclass(slots=True)
class Answered:
    """returns: how often the reader had to come back"""

    generation_id: str = ""
    text: str = ""
    returns: int = 0
    finish_reason: str | None = None
    seq: int = 0


async def streamed(http: httpx.AsyncClient, text: str, tokens: int) -> Answered:
    """A stream, resumed wherever the server says that it restarts."""
    told = Answered()
    body = asking(text, stream=True, max_tokens=tokens)
    async with http.stream("POST", CHAT, json=body) as response:
        assert response.status_code == 200, await response.aread()
        told.generation_id = response.headers["X-Generation-Id"]
        await _read(response, told)
    while told.finish_reason is None:
        told.returns += 1
        again = f"/v1/generations/{told.generation_id}/events"
        headers = {"Last-Event-ID": str(told.seq)}
        async with http.stream("GET", again, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            await _read(response, told)
    return told


async def _read(response: httpx.Response, told: Answered) -> None:
    ended = False
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            told.seq = int(line[4:])
        elif line == "data: [DONE]":
            ended = True
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            if "error" in event:
                assert event["error"]["code"] == "server_restarting", event
                ended = True
            elif choices := event.get("choices"):
                told.text += choices[0]["delta"].get("content", "")
                told.finish_reason = choices[0]["finish_reason"] or told.finish_reason
    assert ended, "the stream broke off"


async def whole(http: httpx.AsyncClient, text: str, tokens: int) -> Answered:
    response = await http.post(CHAT, json=asking(text, max_tokens=tokens))
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    told = Answered(response.headers["X-Generation-Id"], choice["message"]["content"])
    told.finish_reason = choice["finish_reason"]
    return told


async def chatted(stack: Stack, text: str, events: Callable[[dict[str, Any]], None]) -> Answered:
    """One question in a chat of its own, over as many sockets as it takes."""
    told = Answered()
    while True:
        try:
            async with chatting(stack) as socket:
                await _ask(socket, text, told)
                async for event in _answer(socket):
                    events(event)
                    _take(event, told)
                return told
        except ConnectionClosed as closed:
            if closed.rcvd is None or closed.rcvd.code != SERVICE_RESTART:
                raise
            told.returns += 1


async def _ask(socket: Socket, text: str, told: Answered) -> None:
    if not told.generation_id:
        await socket.say(text, conversation=None)
        return
    resume = {
        "type": "resume",
        "ref": "r",
        "generation": told.generation_id,
        "after_seq": told.seq,
    }
    await socket.connection.send(json.dumps(resume))


async def _answer(socket: Socket) -> AsyncIterator[dict[str, Any]]:
    while True:
        event = await socket.next()
        yield event
        if event["type"] == "finished":
            return
        if event["type"] == "tokens":
            ack = {"type": "ack", "generation": event["generation"], "seq": event["seq"]}
            await socket.connection.send(json.dumps(ack))


def _take(event: dict[str, Any], told: Answered) -> None:
    assert event["type"] not in ("error", "gap"), event
    if event["type"] == "accepted":
        told.generation_id = event["generation"]
    elif event["type"] == "tokens":
        told.text, told.seq = told.text + event["text"], event["seq"]
    elif event["type"] == "finished":
        told.finish_reason = event["finish_reason"]


class Crowd:
    """Visitors that ask again and again until told to stop; each ends what it has begun. None of
    them outlives its context.
    """

    def __init__(self) -> None:
        self.answers: list[Answered] = []
        self._enough = asyncio.Event()
        self._visitors: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        for visitor in self._visitors:
            visitor.cancel()
        await asyncio.gather(*self._visitors, return_exceptions=True)

    def let_in(self, count: int, ask: Callable[[], Awaitable[Answered]]) -> None:
        self._visitors += [asyncio.create_task(self._visit(ask)) for _ in range(count)]

    async def _visit(self, ask: Callable[[], Awaitable[Answered]]) -> None:
        while not self._enough.is_set():
            self.answers.append(await ask())

    async def see_off(self) -> list[Answered]:
        """The answers of all; raises what any of them has met."""
        self._enough.set()
        await asyncio.gather(*self._visitors)
        return self.answers
