from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import ResponseError

from kernel import together
from kernel.redis import Client
from kernel.together import Together


class Counting:
    """A client whose round trips are counted. away: how many of them fail"""

    def __init__(self, redis: Client, *, away: int = 0) -> None:
        self._redis = redis
        self.trips: list[int] = []
        self.away = away

    async def execute_command(self, *command: Any) -> Any:
        self._count(1)
        return await self._redis.execute_command(*command)

    def _count(self, commands: int) -> None:
        self.trips.append(commands)
        if self.away:
            self.away -= 1
            raise RedisAway("gone")

    def pipeline(self, *, transaction: bool) -> Any:
        pipeline = self._redis.pipeline(transaction=transaction)
        execute = pipeline.execute

        async def counted(**options: Any) -> Any:
            self._count(len(pipeline.command_stack))
            return await execute(**options)

        pipeline.execute = counted
        return pipeline


async def test_what_is_sent_at_the_same_moment_travels_together(redis: Client) -> None:
    counting = Counting(redis)
    trips = Together(counting)
    replies = await asyncio.gather(*(trips.send("INCR", "n") for _ in range(50)))
    assert replies == list(range(1, 51))
    assert counting.trips == [50]


async def test_what_comes_meanwhile_travels_next(redis: Client) -> None:
    counting = Counting(redis)
    trips = Together(counting)
    first = trips.send("INCR", "n")
    while not counting.trips:
        await asyncio.sleep(0)
    assert await asyncio.gather(first, trips.send("INCR", "n"), trips.send("INCR", "n")) == [
        *(1, 2, 3)
    ]
    assert counting.trips == [1, 2]


async def test_a_refused_command_fails_alone(redis: Client) -> None:
    good, bad, after = (
        together.send(redis, *command)
        for command in (("SET", "a", "1"), ("LPUSH", "a", "1"), ("GET", "a"))
    )
    with pytest.raises(ResponseError):
        await bad
    assert (await good, await after) == (True, b"1")


async def test_an_outage_is_everybodys_and_the_next_is_tried_again(redis: Client) -> None:
    trips = Together(Counting(redis, away=1))
    replies = await asyncio.gather(
        *(trips.send("INCR", "n") for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(each, RedisAway) for each in replies)
    assert await trips.send("INCR", "n") == 1


async def test_who_leaves_takes_nothing_from_the_others(redis: Client) -> None:
    trips = Together(redis)
    leaving, staying = trips.send("INCR", "n"), trips.send("INCR", "n")
    leaving.cancel()
    assert await staying in (1, 2)
