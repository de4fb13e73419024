"""Web processes and engines are replaced under load, and no request fails."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from config.supervisor.asking import NotDone
from config.supervisor.messages import Drain, Restart
from inference.messages import Started
from inference.messages import decode_entry as decoded
from tests.ground import folders
from tests.ground.processes import wait_until
from tests.ground.stores import Stores
from tests.ground.supervised import Supervised
from tests.integration.asking import CHAT, asking, client_of
from tests.integration.visitors import Answered, Crowd, chatted, expected, streamed, whole

pytestmark = pytest.mark.timeout(400)

TEXT = "Tell me of the river"
# Thirty seconds at this pace, and so longer than a new process takes and a draining one waits, also
# where other tests run beside.
LONG = 200
SHORT = 5
SETTINGS = {
    "NEHIR_FAKE_TTFT_MS": "20",
    "NEHIR_FAKE_ITL_MS": "150",
    "NEHIR_DRAIN_GRACE_S": "6",
    "NEHIR_DEFAULT_MAX_TOKENS": str(LONG),
    "NEHIR_WEB_PROCESSES": "2",
}


@pytest.fixture(scope="module")
def up(stores: Stores) -> Iterator[Supervised]:
    folder = folders.short("nehir-rolling-")
    stack = Supervised(folder, stores.copy(), stores.world, **SETTINGS)
    try:
        yield stack.start()
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def http(up: Supervised) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {up.acme.key}"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=up.url, headers=headers, limits=limits, timeout=60, trust_env=False
    ) as client:
        yield client


def exact(up: Supervised, answers: list[Answered], tokens: int) -> None:
    """Everybody has the whole text, and every generation was settled once, for what it is."""
    for each in answers:
        assert each.text == expected(TEXT, tokens)
        assert each.finish_reason == "length"
        settled = up.settled(each.generation_id)
        assert (settled["state"], settled["output_tokens"]) == ("finished", tokens)


async def test_web_processes_are_replaced_under_load(
    up: Supervised, http: httpx.AsyncClient
) -> None:
    before = await asyncio.to_thread(up.pids, "web")
    async with Crowd() as streams, Crowd() as wholes, Crowd() as chats:
        streams.let_in(32, lambda: streamed(http, TEXT, LONG))
        wholes.let_in(8, lambda: whole(http, TEXT, SHORT))
        chats.let_in(3, lambda: chatted(up, TEXT, lambda event: None))
        await asyncio.sleep(1)
        said = await asyncio.to_thread(up.done, "restart", "web")
        answers = [await crowd.see_off() for crowd in (streams, wholes, chats)]
    assert said.count("has left") == 2
    after = await asyncio.to_thread(up.pids, "web")
    assert len(after) == 2
    assert not set(before) & set(after)
    for each, tokens in zip(answers, (LONG, SHORT, LONG), strict=True):
        await asyncio.to_thread(exact, up, each, tokens)
    # They were there when it happened: long answers went on elsewhere, short ones never noticed.
    assert sum(each.returns for each in answers[0]) > 0
    assert sum(each.returns for each in answers[1]) == 0
    assert len(answers[1]) > 16


async def test_an_engine_is_replaced_in_mid_stream(up: Supervised, http: httpx.AsyncClient) -> None:
    def note(event: dict[str, Any]) -> None:
        if event["type"] in ("hello", "models"):
            states.extend(model["state"] for model in event["models"] if model["name"] == "fake")

    states: list[str] = []
    before = await asyncio.to_thread(up.pids, "engine")
    reading = [asyncio.create_task(streamed(http, TEXT, LONG)) for _ in range(16)]
    chats = [asyncio.create_task(chatted(up, TEXT, note)) for _ in range(2)]
    await asyncio.sleep(1)
    await asyncio.to_thread(up.ask, Restart("engine"))
    answers = await asyncio.gather(*reading, *chats)
    assert await asyncio.to_thread(up.pids, "engine") != before
    await asyncio.to_thread(exact, up, answers, LONG)
    assert [each.returns for each in answers] == [0] * len(answers)
    moved = [await asyncio.to_thread(replicas_of, up, each.generation_id) for each in answers]
    assert max(moved) == 2
    # Somebody could answer all the while.
    assert set(states) == {"ready"}
    await asyncio.to_thread(up.wait_until_idle)


def replicas_of(up: Supervised, generation_id: str) -> int:
    """How many replicas have had a generation."""
    with up.redis as connection:
        (key,) = connection.keys(f"nehir:log:*:{generation_id}")  # type: ignore[misc]
        raw: Any = connection.xrange(key)
    return sum(isinstance(decoded(fields[b"e"]), Started) for _, fields in raw)


def test_what_comes_while_an_engine_is_drained_waits_for_the_next(up: Supervised) -> None:
    up.ask(Drain("engine"))
    assert up.replicas() == []
    replies: list[httpx.Response] = []

    def ask() -> None:
        with client_of(up) as client:
            replies.append(client.post(CHAT, json=asking(TEXT, max_tokens=SHORT), timeout=120))

    asker = threading.Thread(target=ask)
    asker.start()
    wait_until(lambda: up.waiting() == 1, what="the request waits")
    _, said = up.ask(Drain("engine"))
    assert said == ["engine is stopped already."]
    up.ask(Restart("engine"))
    asker.join(60)
    (reply,) = replies
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["message"]["content"] == expected(TEXT, SHORT)


async def test_a_drain_during_a_drain_is_refused_and_changes_nothing(
    up: Supervised, http: httpx.AsyncClient
) -> None:
    reading = asyncio.create_task(streamed(http, TEXT, LONG))
    await asyncio.sleep(1)
    first = asyncio.create_task(asyncio.to_thread(up.ask, Drain("engine")))
    await asyncio.to_thread(wait_until, lambda: draining(up), what="the engine drains")
    with pytest.raises(NotDone, match="A drain of engine is going on"):
        await asyncio.to_thread(up.ask, Drain("engine"))
    await first
    assert up.replicas() == []
    # What had not ended within the grace waits for the engine that comes back.
    await asyncio.to_thread(up.ask, Restart("engine"))
    await asyncio.to_thread(exact, up, [await reading], LONG)


def draining(up: Supervised) -> bool:
    return any(record.state == "draining" for record in up.replicas())


async def test_half_sent_requests_are_answered_or_given_up_with_the_grace(up: Supervised) -> None:
    before = await asyncio.to_thread(up.pids, "web")
    host, port = up.url.removeprefix("http://").split(":")
    body = json.dumps(asking(TEXT)).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {up.acme.key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    request = head + body
    late, never = [], []
    for sent in (20, len(head), len(head) + 10):
        for connections in (late, never):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request[:sent])
            connections.append((reader, writer, sent))
    await asyncio.sleep(0.5)
    for pid in before:
        os.kill(pid, signal.SIGTERM)
    await asyncio.sleep(0.5)
    for reader, writer, sent in late:
        writer.write(request[sent:])
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert json.dumps(expected(TEXT, SHORT))[1:-1].encode() in answer
        writer.close()
    for reader, writer, _ in never:
        assert await asyncio.wait_for(reader.read(), 60) == b""  # and no reset
        writer.close()
    # Each has left in order, and another has come.
    await asyncio.to_thread(wait_until, lambda: came_back(up, before), what="others have come")
    for name in ("web", "web-2"):
        assert f"{name} ended with code 0" in up.up.output()


def came_back(up: Supervised, before: list[int]) -> bool:
    after = up.pids("web")
    return len(after) == len(before) and not set(after) & set(before)
