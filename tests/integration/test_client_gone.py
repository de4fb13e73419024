"""What becomes of an answer whose client leaves: by the policy of its route it is held and then
suspended, goes on to its end, or is cancelled. Seen in the database and in the replica's own
account, not by a stopwatch: alone, the fake engine would run on to the end.
"""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming

LONG = {"max_tokens": 256}


def one_left(stack: Stack, before: set[str]) -> str:
    """The generation that was admitted since."""
    query = "SELECT id FROM inference_generation"
    found = wait_until(
        lambda: {row["id"] for row in stack.store.rows(query)} - before, what="it is admitted"
    )
    (generation_id,) = found
    return generation_id


def ids(stack: Stack) -> set[str]:
    return {row["id"] for row in stack.store.rows("SELECT id FROM inference_generation")}


def cancelled(stack: Stack, generation_id: str) -> int:
    """It was stopped before its end, and nothing of it is left; the tokens that it made."""
    found = stack.settled(generation_id)
    assert (found["state"], found["finish_reason"]) == ("cancelled", "cancelled")
    stack.wait_until_idle()
    made: int = found["output_tokens"]
    assert made < 256
    return made


def test_in_mid_stream_it_is_held_at_once(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_DETACH_GRACE_S="60", NEHIR_FAKE_ITL_MS="20")
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
    wait_until(lambda: stack.held() == 1, what="it is held")
    text, made = stack.logged(stream.generation_id)
    assert 3 <= made < 256
    assert stack.running() == 0
    # It has stopped for good, not just for a moment.
    time.sleep(0.5)
    assert stack.logged(stream.generation_id) == (text, made)
    assert stack.generation(stream.generation_id)["state"] == "open"


def test_in_mid_stream_it_is_suspended_after_the_grace(stack: Stack) -> None:
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
    checkpoint = stack.suspended(stream.generation_id)
    assert 3 <= checkpoint["seq"] < 256
    assert checkpoint["seq"] == stack.logged(stream.generation_id)[1]
    stack.wait_until_idle()
    assert stack.generation(stream.generation_id)["state"] == "suspended"
    with client_of(stack) as client:
        given_up = client.delete(f"/v1/generations/{stream.generation_id}").json()
    assert given_up["state"] == "cancelled"
    assert given_up["position"] == cancelled(stack, stream.generation_id) == checkpoint["seq"]


def test_in_mid_stream_it_is_cancelled_where_the_route_says_so(stack: Stack) -> None:
    with client_of(stack) as client, streaming(client, model="fleeting", **LONG) as stream:
        stream.words(3)
    assert cancelled(stack, stream.generation_id) >= 3


def test_in_mid_stream_it_goes_on_where_the_route_says_so(stack: Stack) -> None:
    with client_of(stack) as client, streaming(client, model="lasting", **LONG) as stream:
        stream.words(3)
    found = stack.settled(stream.generation_id)
    assert (found["state"], found["output_tokens"]) == ("finished", 256)


def test_while_a_whole_answer_is_made(stack: Stack) -> None:
    before = ids(stack)
    with client_of(stack) as client, pytest.raises(httpx.ReadTimeout):
        client.post(CHAT, json=asking(**LONG), timeout=0.3)
    cancelled(stack, one_left(stack, before))


async def test_without_reading_a_single_byte(stack: Stack) -> None:
    before = await asyncio.to_thread(ids, stack)
    host, port = stack.url.removeprefix("http://").split(":")
    _reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(asking(stream=True, model="fleeting", **LONG)).encode()
    head = [
        f"POST {CHAT} HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: Bearer {stack.acme.key}",
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    writer.write("\r\n".join(head).encode() + body)
    await writer.drain()
    generation_id = await asyncio.to_thread(one_left, stack, before)
    # Not a word of goodbye either: the connection is reset.
    writer.transport.abort()
    await asyncio.to_thread(cancelled, stack, generation_id)


def test_while_it_waits_and_before_its_first_token(own_stack: OwnStack) -> None:
    # The engine makes a token at its start: the pause before it is only as long as it has to be.
    stack = own_stack(NEHIR_FAKE_TTFT_MS="3000", NEHIR_ENGINE_MAX_RUNNING="1")
    fleeting = LONG | {"model": "fleeting"}
    with client_of(stack) as client, streaming(client, **fleeting) as first:
        wait_until(stack.unsettled, what="the first is taken")
        with client_of(stack) as other, streaming(other, **fleeting) as second:
            wait_until(lambda: stack.waiting() == 1, what="the second waits")
        assert stack.settled(second.generation_id)["state"] == "cancelled"
        assert stack.waiting() == 0
        assert stack.unsettled() == [first.generation_id]
    assert cancelled(stack, first.generation_id) == 0


@pytest.mark.parametrize("model", ["fleeting", "fake"])
def test_thirty_at_once_do_not_hold_up_the_others(stack: Stack, model: str) -> None:
    clients = [client_of(stack) for _ in range(30)]
    opened = []
    for client in clients:
        asked = asking(stream=True, model=model, **LONG)
        opened.append(client.send(client.build_request("POST", CHAT, json=asked), stream=True))
    generation_ids = [response.headers["X-Generation-Id"] for response in opened]
    with client_of(stack) as probe:
        for client in clients:
            client.close()
        for _ in range(20):
            assert probe.get("/healthz").status_code == 200
            assert probe.get("/readyz").status_code == 200
        answer = probe.post(CHAT, json=asking())
        assert answer.status_code == 200
        for generation_id in generation_ids:
            if model == "fake":
                assert stack.suspended(generation_id)["seq"] < 256
                probe.delete(f"/v1/generations/{generation_id}")
                cancelled(stack, generation_id)
            else:
                # On a busy machine the first may have ended before its client left.
                assert stack.settled(generation_id)["state"] in ("cancelled", "finished")
