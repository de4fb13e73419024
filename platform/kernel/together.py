"""Commands to Redis that are sent at the same moment travel together.

redis-py spends more on a round trip than Redis does on what it carries. While one is on its way,
commands gather for the next: a burst of a hundred costs a few round trips, a lone command its own.
Not for commands that block.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from kernel.loops import conclude
from kernel.redis import Client


class Together:
    """Of one client."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._working: asyncio.Task[None] | None = None

    def send(self, *command: Any) -> asyncio.Future[Any]:
        """The reply to one command; raises what redis-py raises. Cancelled, it is carried out or
        not: it can't be known.
        """
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return reply

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._exchange([each for each in batch if not each[1].done()])
        finally:
            self._working = None

    async def _exchange(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        try:
            replies = await self._replies([command for command, _ in batch])
        except Exception as error:  # noqa: BLE001 - each sender gets it
            replies = [error] * len(batch)
        for (_, reply), value in zip(batch, replies, strict=True):
            conclude(reply, value)

    async def _replies(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        if len(commands) == 1:
            # At half the cost of a pipeline, when nothing else is going on.
            return [await self._redis.execute_command(*commands[0])]
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        return replies


_of_client: WeakKeyDictionary[Client, Together] = WeakKeyDictionary()


def send(redis: Client, *command: Any) -> asyncio.Future[Any]:
    """Send a command together with what else is sent through this client just now."""
    if redis not in _of_client:
        _of_client[redis] = Together(redis)
    return _of_client[redis].send(*command)
