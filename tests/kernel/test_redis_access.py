from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from kernel import redis as access
from kernel.redis import Client, client
from tests.ground import folders
from tests.ground.valkey import Valkey

Command = Callable[[Client], Awaitable[Any]]


def pipelined(redis: Client) -> Awaitable[Any]:
    pipeline = redis.pipeline(transaction=False)
    pipeline.get("a")
    pipeline.get("b")
    found: Awaitable[Any] = pipeline.execute()
    return found


COMMANDS: dict[str, Command] = {
    "one": lambda redis: redis.get("a"),
    "blocking": lambda redis: redis.blpop(["nothing"], timeout=0.05),
    "pipeline": pipelined,
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("connected", [False, True])
async def test_a_cancellation_is_never_lost_on_the_way(
    redis: Client, command: Command, connected: bool
) -> None:
    """redis-py sends under `asyncio.wait_for`, which lost some before Python 3.12: a client that
    leaves at the wrong moment would have left its answer running.
    """

    async def busy(own: Client) -> None:
        while True:
            await command(own)

    for steps in range(1, 30):
        async with access.connected() as own:
            if connected:
                await own.ping()
            task = asyncio.create_task(busy(own))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _pending = await asyncio.wait([task], timeout=20)
            assert done, f"lost after {steps} steps"
            assert task.cancelled()


@pytest.mark.parametrize("url", ["redis://h:1/0", "rediss://h:1/0", "unix:///tmp/s.sock"])
async def test_every_kind_of_address_is_reached_the_same_way(url: str, settings: Settings) -> None:
    settings.REDIS_URL = url
    async with access.connected() as own:
        kind = own.connection_pool.connection_class
        assert issubclass(kind, access.CancellableSending)
        assert own.connection_pool.make_connection().socket_timeout == access.SOCKET_TIMEOUT_S


async def test_a_redis_that_answers_nobody_is_an_outage(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SOCKET_TIMEOUT_S", 0.2)
    server = Valkey(folders.short("nehir-valkey-") / "valkey.sock").start()
    settings.REDIS_URL = server.url
    try:
        assert await client().ping()
        server.pause()
        with pytest.raises(access.OUTAGE):
            await client().ping()
        with pytest.raises(access.OUTAGE):
            await client().set("a", b"x" * 30_000_000)
        server.resume()
        assert await client().ping()
    finally:
        server.stop()
        await client().aclose()
