"""Limits on connections, over real sockets to two web processes."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest

from inference import redis_keys
from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack, TenantAccess
from tests.integration.asking import CHAT, Stream, asking, client_of, streaming
from tests.integration.chatting import Socket, chatting

LONG = {"max_tokens": 200}
PACE = {"NEHIR_CONNECTION_LEASE_S": "2", "NEHIR_DETACH_GRACE_S": "600"}


@contextmanager
def open_stream(
    stack: Stack, tenant: TenantAccess | None = None, *, url: str = "", **fields: object
) -> Iterator[Stream]:
    with client_of(stack, tenant, url=url) as client, streaming(client, **LONG, **fields) as stream:
        yield stream


def held(stack: Stack, kind: str, which: str = "all") -> int:
    with stack.redis as connection:
        return int(connection.zcard(f"{redis_keys.connections(kind)}:{which}"))  # type: ignore[arg-type]


def generations(stack: Stack) -> int:
    return len(stack.store.rows("SELECT id FROM inference_generation"))


def test_an_sse_stream_waits_for_its_turn_and_is_told_its_place(own_stack: OwnStack) -> None:
    stack = own_stack(**PACE, NEHIR_SSE_LIMIT_PER_CLIENT="1")
    _, second_url = stack.start_web()
    with open_stream(stack) as first:
        first.words(1)
        with contextlib.ExitStack() as waiting:
            told = waiting.enter_context(open_stream(stack, url=second_url))
            assert next(told.lines) == ": connection queued position=1"
            assert "X-Generation-Id" not in told.response.headers
            named = waiting.enter_context(
                open_stream(stack, url=stack.url, stream_options={"include_queue": True})
            )
            assert next(named.lines) == "event: connection_queued"
            assert json.loads(next(named.lines).removeprefix("data: ")) == {"position": 2}
            # Whole answers need no slot, another tenant has its own, and nothing was admitted yet.
            assert generations(stack) == 1
            with client_of(stack) as client:
                assert client.post(CHAT, json=asking()).status_code == 200
            with open_stream(stack, stack.globex, url=second_url) as foreign:
                foreign.words(1)
            first.response.close()
            told.words(3)
            named_lines = iter(named.lines)
            assert any('{"position":1}' in line for line in named_lines)
            told.response.close()
            named.words(3)
    wait_until(lambda: not held(stack, "sse"), what="every slot is free")


def test_a_full_queue_is_a_503_with_retry_after(own_stack: OwnStack) -> None:
    stack = own_stack(**PACE, NEHIR_SSE_LIMIT_PER_TENANT="1", NEHIR_CONNECTION_QUEUE="2")
    with open_stream(stack) as first, open_stream(stack) as second:
        first.words(1)
        assert next(second.lines) == ": connection queued position=1"
        with client_of(stack) as client:
            for address, body in (
                (CHAT, asking(stream=True)),
                (f"/v1/generations/{first.generation_id}/events", None),
            ):
                refused = client.request("POST" if body else "GET", address, json=body)
                assert refused.status_code == 503
                assert refused.json()["error"]["code"] == "too_many_connections"
                assert 1 <= int(refused.headers["Retry-After"]) <= 60
        with open_stream(stack, stack.globex) as foreign:
            foreign.words(1)
    wait_until(lambda: not held(stack, "sse"), what="every slot is free")
    metrics = httpx.get(f"{stack.url}/metrics").text
    assert 'nehir_connections_refused_total{kind="sse",limit="tenant"} 2.0' in metrics


def test_errors_of_a_request_that_waited_come_in_its_stream(own_stack: OwnStack) -> None:
    stack = own_stack(**PACE, NEHIR_SSE_LIMIT_PER_CLIENT="1")
    with open_stream(stack) as first:
        first.words(1)
        with open_stream(stack, model="nonsense") as waiting:
            assert next(waiting.lines) == ": connection queued position=1"
            first.response.close()
            (event,) = waiting.events()
            assert event["error"]["code"] == "model_not_found"
    wait_until(lambda: not held(stack, "sse"), what="every slot is free")


def test_who_leaves_while_waiting_leaves_nothing(own_stack: OwnStack) -> None:
    stack = own_stack(**PACE, NEHIR_SSE_LIMIT_PER_CLIENT="1")
    with open_stream(stack) as first:
        first.words(1)
        with open_stream(stack) as second, open_stream(stack) as third:
            assert next(second.lines) == ": connection queued position=1"
            assert next(third.lines) == ": connection queued position=2"
            second.response.close()
            assert any(line == ": connection queued position=1" for line in third.lines)
            first.response.close()
            third.words(1)
    assert generations(stack) == 2
    wait_until(lambda: not held(stack, "sse", "waiting"), what="nobody waits")


def test_slots_of_a_killed_web_process_come_free(own_stack: OwnStack) -> None:
    stack = own_stack(**PACE, NEHIR_SSE_LIMIT="2")
    doomed, url = stack.start_web()
    with contextlib.ExitStack() as open_ones:
        for _ in range(2):
            open_ones.enter_context(open_stream(stack, url=url)).words(1)
        with open_stream(stack) as waiting:
            assert next(waiting.lines) == ": connection queued position=1"
            doomed.kill()
            waiting.words(3)
    wait_until(lambda: not held(stack, "sse"), what="every slot is free")


async def test_who_waits_at_a_process_that_leaves_is_told_so_at_once(own_stack: OwnStack) -> None:
    stack = own_stack(
        **PACE,
        NEHIR_SSE_LIMIT_PER_TENANT="1",
        NEHIR_WS_LIMIT_PER_TENANT="1",
        NEHIR_DRAIN_GRACE_S="600",
    )
    leaving, url = stack.start_web()
    with open_stream(stack) as first, open_stream(stack, url=url) as waiting:
        first.words(1)
        assert next(waiting.lines) == ": connection queued position=1"
        async with chatting(stack) as second:
            assert (await second.next())["type"] == "hello"
            async with chatting(stack, url=url) as late:
                assert (await late.next())["type"] == "connection_queued"
                leaving.send_signal(signal.SIGTERM)
                assert await late.close_code() == 1012
        (event,) = waiting.events()
        assert event["error"]["code"] == "server_restarting"
        wait_until(lambda: leaving.returncode is not None, what="the process has left")
        assert leaving.returncode == 0
        first.words(1)


@pytest.fixture
async def two_sockets(own_stack: OwnStack) -> AsyncIterator[tuple[Stack, Socket, Socket]]:
    """The first has the only slot, the second waits in the only place of the queue."""
    stack = own_stack(**PACE, NEHIR_WS_LIMIT_PER_CLIENT="1", NEHIR_CONNECTION_QUEUE="1")
    async with chatting(stack) as first:
        assert (await first.next())["type"] == "hello"
        async with chatting(stack) as second:
            assert await second.next() == {"type": "connection_queued", "position": 1}
            yield stack, first, second


async def test_a_socket_waits_for_its_turn(two_sockets: tuple[Stack, Socket, Socket]) -> None:
    stack, first, second = two_sockets
    await second.say()
    (early,) = await second.until("error")
    assert (early["error"]["code"], early["error"]["retryable"]) == ("connection_queued", True)
    async with chatting(stack, stack.globex.session) as foreign:
        assert (await foreign.next())["type"] == "hello"
    await first.connection.close()
    assert (await second.next())["type"] == "hello"
    await second.accepted()
    await second.until("tokens")


async def test_a_socket_is_refused_when_the_queue_is_full(
    two_sockets: tuple[Stack, Socket, Socket],
) -> None:
    stack, first, second = two_sockets
    async with chatting(stack) as third:
        (told,) = await third.until("error")
        assert told["error"]["code"] == "too_many_connections"
        assert told["error"]["retryable"]
        assert await third.close_code() == 1013
    await second.connection.close()
    wait_until(lambda: not held(stack, "websocket", "waiting"), what="its place is free")
    async with chatting(stack) as third:
        assert await third.next() == {"type": "connection_queued", "position": 1}
        await first.connection.close()
        assert (await third.next())["type"] == "hello"


async def test_a_socket_is_told_to_come_back_while_redis_is_away(own_stack: OwnStack) -> None:
    stack = own_stack()
    async with chatting(stack) as early:
        assert (await early.next())["type"] == "hello"
        stack.valkey.kill()
        async with chatting(stack) as late:
            (told,) = await late.until("error")
            assert told["error"]["code"] == "service_unavailable"
            assert await late.close_code() == 1013
        stack.valkey.start()
        async with chatting(stack) as again:
            assert (await again.next())["type"] == "hello"
        # Who was there stays, and the new Redis comes to know of it.
        wait_until(lambda: held(stack, "websocket") == 1, what="it has its slot again")
        await early.accepted()
