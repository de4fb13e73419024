"""Clients that leave a chat socket at the worst moment: while something is sent to them."""

from __future__ import annotations

import asyncio
import json

from websockets.asyncio.client import ClientConnection

from inference import redis_keys
from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.chatting import chatting

SMALL_BUFFERS = ("--high-water", "2048", "--send-buffer", "2048")
# Longer than any test: what is gone before was given up, and has not lapsed.
LEASE = {"NEHIR_CONNECTION_LEASE_S": "600"}
ENOUGH_PINGS = 200_000


def slots(stack: Stack) -> int:
    with stack.redis as connection:
        return int(connection.zcard(f"{redis_keys.connections('websocket')}:all"))  # type: ignore[arg-type]


async def until_nobody_listens(connection: ClientConnection) -> None:
    """Send what has to be answered, and read no answer, until the server takes no more."""
    connection.transport.pause_reading()
    ping = json.dumps({"type": "ping", "ref": "p" * 60})
    for _ in range(ENOUGH_PINGS):
        try:
            async with asyncio.timeout(2):
                await connection.send(ping)
        except TimeoutError:
            return
    raise AssertionError("The server took everything.")


async def test_one_that_leaves_while_a_handler_sends_frees_its_slot(own_stack: OwnStack) -> None:
    stack = own_stack(web_options=SMALL_BUFFERS, **LEASE)
    async with chatting(stack) as socket:
        await socket.until("hello")
        assert slots(stack) == 1
        await until_nobody_listens(socket.connection)
        socket.connection.transport.abort()
    wait_until(lambda: slots(stack) == 0, what="its slot is free")


async def test_one_that_leaves_while_an_answer_is_sent_frees_its_slot(own_stack: OwnStack) -> None:
    stack = own_stack(web_options=SMALL_BUFFERS, **LEASE, NEHIR_FAKE_ITL_MS="1")
    async with chatting(stack) as socket:
        for number in range(4):
            await socket.accepted(f"Tell me all {number}")
        socket.connection.transport.pause_reading()
        socket.connection.transport.abort()
    wait_until(lambda: slots(stack) == 0, what="its slot is free")
    log = "\n".join(path.read_text() for path in stack.folder.glob("web-*.log"))
    assert "ERROR" not in log
