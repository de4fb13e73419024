"""Every address of the API and every message of the chat's socket, over real sockets, with the ids
of another tenant's answers and conversations, while those are being made.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, get_args

import httpx
import msgspec
import pytest
from django.urls import get_resolver

from streaming import events
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming
from tests.integration.chatting import Socket, chatting
from tests.isolation.addresses import API, walked

TOKENS = 120
# How far the person's answer may be ahead of its reader, who reads nothing before the end.
MARK = 8


@dataclass(frozen=True, slots=True)
class Theirs:
    """What is globex's: ids of a running answer to an application, and of one to a person with its
    conversation; canary: a word of what they have asked
    """

    of_application: str
    of_person: str
    conversation: str
    canary: str

    @property
    def answers(self) -> tuple[str, str]:
        return self.of_application, self.of_person


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    status: int
    body: dict[str, Any] | None = None


def on_answers(path: str, method: str = "GET") -> Callable[[Theirs], list[Request]]:
    return lambda theirs: [Request(method, path.format(one), 404) for one in theirs.answers]


# A new address of the API needs a line: what is asked with others' ids, and what is answered.
ADDRESSES: dict[str, list[Callable[[Theirs], list[Request]]]] = {
    # Names of models are everybody's; nothing of a tenant is named.
    "v1/models": [lambda theirs: [Request("GET", "/v1/models", 200)]],
    "v1/models/<str:name>": [on_answers("/v1/models/{}")],
    "v1/chat/completions": [
        # Their words, asked with an Idempotency-Key of theirs, are asked anew.
        lambda theirs: [Request("POST", CHAT, 200, asking(theirs.canary))],
        lambda theirs: [Request("POST", CHAT, 404, asking(model=one)) for one in theirs.answers],
    ],
    "v1/generations/<str:generation_id>": [
        on_answers("/v1/generations/{}"),
        on_answers("/v1/generations/{}", "DELETE"),
    ],
    "v1/generations/<str:generation_id>/events": [on_answers("/v1/generations/{}/events")],
    "": [on_answers("/v1/{}"), on_answers("/v1/conversations/{}")],
}


@dataclass(frozen=True, slots=True)
class Frame:
    """refused: code of the error that answers it; None: nothing answers it"""

    fields: dict[str, Any]
    refused: str | None


def about_answers(refused: str | None, **fields: Any) -> Callable[[Theirs], list[Frame]]:
    return lambda theirs: [Frame(fields | {"generation": one}, refused) for one in theirs.answers]


# A new message of the socket needs a line, by its tag.
MESSAGES: dict[str, Callable[[Theirs], list[Frame]]] = {
    "send": lambda theirs: [
        Frame(
            {"ref": "a", "model": "fake", "text": "hi", "conversation": theirs.conversation},
            "conversation_not_found",
        )
    ],
    "stop": about_answers("generation_not_found"),
    "ack": about_answers(None, seq=2**40),
    "resume": about_answers("generation_not_found", ref="b", after_seq=0),
    "ping": lambda theirs: [Frame({"ref": one}, None) for one in theirs.answers],
}


def test_every_address_and_message_is_probed() -> None:
    patterns = {pattern for pattern, _ in walked(get_resolver(API).url_patterns)}
    assert patterns == set(ADDRESSES), "Say in ADDRESSES how these are probed."
    messages = {msgspec.inspect.type_info(each).tag for each in get_args(events.Message)}
    assert messages == set(MESSAGES), "Say in MESSAGES how these are probed."


@asynccontextmanager
async def answering(stack: Stack) -> AsyncIterator[Theirs]:
    """Two of globex's answers that are being made; at the end they are whole and were counted."""
    canary = f"canary{secrets.token_hex(8)}"
    header = {"Idempotency-Key": canary}
    with client_of(stack, stack.globex) as client:
        client.headers.update(header)
        with streaming(client, text=canary, max_tokens=TOKENS) as stream:
            async with chatting(stack, stack.globex.session) as socket:
                accepted = await socket.accepted(f"socket {canary}", high_water_tokens=MARK)
                theirs = Theirs(
                    stream.generation_id,
                    accepted["generation"],
                    accepted["conversation"]["id"],
                    canary,
                )
                stream.words(2)
                yield theirs
                await untouched(stack, socket, theirs)
                for _ in stream.events():
                    pass
    settled = stack.settled(theirs.of_application)
    assert (settled["state"], settled["output_tokens"]) == ("finished", TOKENS)
    assert stack.settled(theirs.of_person)["state"] == "finished"


async def untouched(stack: Stack, socket: Socket, theirs: Theirs) -> None:
    """The conversation has nobody else's message, and its answer goes on to its end, which waited
    for its own reader alone.
    """
    _text, seq = stack.logged(theirs.of_person)
    assert seq < TOKENS
    told = await socket.until("tokens", "finished", generation=theirs.of_person)
    while told[-1]["type"] == "tokens":
        await socket.ack(theirs.of_person, told[-1]["seq"])
        told = await socket.until("tokens", "finished", generation=theirs.of_person)
    assert told[-1]["finish_reason"] in ("length", "stop")
    query = "SELECT author FROM streaming_message WHERE conversation_id = :id AND author = 'user'"
    assert len(stack.store.rows(query, id=theirs.conversation)) == 1


@pytest.mark.parametrize("who", ["tenant", "nobody"])
async def test_no_address_of_the_api(stack: Stack, who: str) -> None:
    key = {"Authorization": f"Bearer {stack.acme.key}"} if who == "tenant" else {}
    async with answering(stack) as theirs:
        headers = key | {"Idempotency-Key": theirs.canary}
        async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as acme:
            for requests in ADDRESSES.values():
                for asked in [asked for make in requests for asked in make(theirs)]:
                    found = await acme.request(asked.method, asked.path, json=asked.body)
                    wanted = asked.status if who == "tenant" else 401
                    assert found.status_code == wanted, (asked, found.text)
                    tells = found.text.replace(asked.path, "") + str(found.headers)
                    named = json.dumps(asked.body)
                    for word in (*theirs.answers, theirs.conversation, stack.globex.id):
                        where = asked.path + named
                        assert word in where or word not in tells, asked
                    assert "X-Replayed" not in found.headers


async def test_no_message_of_the_socket(stack: Stack) -> None:
    async with answering(stack) as theirs, chatting(stack) as acme:
        await acme.until("hello")
        for tag, frames in MESSAGES.items():
            for frame in frames(theirs):
                await acme.connection.send(json.dumps({"type": tag} | frame.fields))
                # Whatever answers it comes before this.
                if frame.refused is None:
                    await acme.connection.send(json.dumps({"type": "ping", "ref": "after"}))
                said = await acme.until("pong", "error", "accepted", "resumed")
                while frame.refused is None and said[-1].get("ref") != "after":
                    assert said[-1] == {"type": "pong", "ref": frame.fields["ref"]}
                    said += await acme.until("pong", "error", "accepted", "resumed")
                if frame.refused is not None:
                    assert said[-1]["type"] == "error", (tag, said)
                    assert said[-1]["error"]["code"] == frame.refused
                # What the refused generation is, is nothing of theirs: it was named.
                assert not any(event["type"] in ("tokens", "finished") for event in said)
                assert theirs.canary not in str(said)


async def test_nothing_that_a_client_says_is_in_a_name_in_redis(stack: Stack) -> None:
    """Names are made of what the server knows; words are kept where they are expected alone."""
    async with answering(stack) as theirs, chatting(stack) as acme:
        await acme.say(theirs.canary, ref=theirs.canary, key=theirs.canary)
        accepted = (await acme.until("accepted"))[-1]
        with stack.redis as redis:
            names = [name.decode() for name in redis.keys("*")]  # type: ignore[union-attr]
            holding = {name for name in names if theirs.canary in str(dump(redis, name))}
        await acme.stop(accepted["generation"])
        await acme.until("finished", generation=accepted["generation"])
    assert not [name for name in names if theirs.canary in name]
    ours = [name for name in names if name.startswith("nehir:log:")]
    for one in theirs.answers:
        assert f"nehir:log:{stack.globex.id}:{one}" in ours
    assert f"nehir:log:{stack.acme.id}:{accepted['generation']}" in ours
    meant = ("nehir:request:", "nehir:running:", "nehir:log:")
    assert not {name for name in holding if not name.startswith(meant)}


def dump(redis: Any, name: str) -> object:
    kind = redis.type(name).decode()
    read: dict[str, Callable[[], object]] = {
        "string": lambda: redis.get(name),
        "hash": lambda: redis.hgetall(name),
        "list": lambda: redis.lrange(name, 0, -1),
        "set": lambda: redis.smembers(name),
        "zset": lambda: redis.zrange(name, 0, -1),
        "stream": lambda: redis.xrange(name),
        "none": lambda: None,
    }
    return read[kind]()
