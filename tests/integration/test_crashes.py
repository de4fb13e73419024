"""Engine hosts are killed again and again, at random points of what they run; whatever happens,
each reader's text, the log and the ledger's count agree, and are those of an undisturbed answer.

NEHIR_CRASHES says how often, NEHIR_CRASH_SEED when: `NEHIR_CRASHES=100 pytest …`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

from inference.engine.fake import word
from inference.engine.tokenizer import FakePromptRenderer
from inference.messages import Started, Suspended
from tests.conftest import OwnStack
from tests.environment import CRASH_SEED, CRASHES
from tests.ground.processes import Child
from tests.ground.stack import Stack
from tests.integration.reading import Reader, Reading, reader

ANSWERS = 6
LONGEST = 60
# More than one host takes, so that some of the six wait in the queue.
RUNNING = 2
ITL_S = 0.02
SETTINGS = {
    "NEHIR_ENGINE_MAX_RUNNING": str(RUNNING),
    "NEHIR_FAKE_ITL_MS": str(ITL_S * 1000),
    "NEHIR_REPLICA_TIMEOUT_S": "1",
    "NEHIR_DETACH_GRACE_S": "30",
    # A small mark, so that what nobody reads is held.
    "NEHIR_HIGH_WATER_TOKENS": "16",
    "NEHIR_TAKEOVER_LIMIT": "100",
}


class Crashes:
    """Two hosts at a time: the one to be killed, and another that goes on."""

    def __init__(self, stack: Stack, by: Reader) -> None:
        self.stack = stack
        self.by = by
        self.chance = random.Random(CRASH_SEED)  # noqa: S311 - chance, no secret
        self.hosts: list[Child] = [stack.engine] if stack.engine else []
        self.kills = 0
        self._names = 0

    async def add_host(self) -> None:
        self._names += 1
        name = f"engine-{self._names}"
        self.hosts.append(await asyncio.to_thread(self.stack.start_engine, replica=name))

    async def kill(self) -> None:
        self.kills += 1
        victim = self.hosts.pop(self.chance.randrange(len(self.hosts)))
        await asyncio.to_thread(victim.kill)

    async def round(self, number: int) -> None:
        """Some answers, a host killed among them, perhaps the next as soon as it has taken over."""
        lengths = [self.chance.randint(1, LONGEST) for _ in range(ANSWERS)]
        texts = [f"round {number} question {index}" for index in range(ANSWERS)]
        readings = [Reading() for _ in range(ANSWERS)]
        asking = [
            asyncio.create_task(self._read(reading, text, length))
            for reading, text, length in zip(readings, texts, lengths, strict=True)
        ]
        await asyncio.sleep(self.chance.uniform(0, LONGEST * ITL_S))
        next_host = asyncio.create_task(self.add_host())
        await self.kill()
        if self.chance.random() < 0.3 and self.kills < CRASHES:
            await next_host
            await self._something_is_restored(readings)
            next_host = asyncio.create_task(self.add_host())
            await self.kill()
        await asyncio.gather(*asking, next_host)
        for reading, text, length in zip(readings, texts, lengths, strict=True):
            await self.check(reading, text, length)

    async def _read(self, reading: Reading, text: str, length: int) -> None:
        """One in three leaves and comes back, so that its answer is held for a while."""
        asking = asyncio.create_task(self.by.ask(reading, text=text, max_tokens=length))
        if self.chance.random() < 0.3:
            await asyncio.sleep(self.chance.uniform(0, LONGEST * ITL_S))
            if reading.generation_id:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await asyncio.sleep(self.chance.uniform(0, 1))
                if not reading.done:
                    await self.by.to_the_end(reading)
                return
        await asking

    async def _something_is_restored(self, readings: list[Reading]) -> None:
        """Or everything has ended; then there is nothing to restore."""
        await until(lambda: all(each.done for each in readings) or self._restored(readings))

    def _restored(self, readings: list[Reading]) -> bool:
        logs = [self.stack.log(each.generation_id) for each in readings if each.generation_id]
        return any(
            isinstance(before, Suspended) and isinstance(after, Started)
            for log in logs
            for before, after in itertools.pairwise(log)
        )

    async def check(self, reading: Reading, text: str, length: int) -> None:
        prompt = FakePromptRenderer().render([{"role": "user", "content": text}])
        expected = "".join(word(prompt, position)[1] for position in range(length))
        assert reading.error is None, (CRASH_SEED, self.kills, reading.error)
        assert (reading.text, reading.seq, reading.done) == (expected, length, True)
        logged = await asyncio.to_thread(self.stack.logged, reading.generation_id)
        assert logged == (expected, length)
        settled = await asyncio.to_thread(self.stack.settled, reading.generation_id)
        assert (settled["state"], settled["output_tokens"]) == ("finished", length)
        assert reading.usage is not None
        assert reading.usage["completion_tokens"] == length


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(check):
            await asyncio.sleep(0.02)


@pytest.mark.timeout(120 + 30 * CRASHES)
async def test_hosts_killed_again_and_again(own_stack: OwnStack) -> None:
    stack = await asyncio.to_thread(own_stack, **SETTINGS)
    async with reader(stack) as by:
        crashes = Crashes(stack, by)
        await crashes.add_host()
        number = 0
        while crashes.kills < CRASHES:
            number += 1
            await crashes.round(number)
    made = stack.store.rows(
        "SELECT count(*) AS n, sum(output_tokens) AS tokens FROM inference_generation"
    )
    assert made[0]["n"] == number * ANSWERS
    assert stack.unsettled() == []
    await asyncio.to_thread(stack.wait_until_idle)
