"""Processes die and deploy under running streams; every text is exact and counted once."""

from __future__ import annotations

import asyncio
import signal

from tests.conftest import OwnStack
from tests.ground.stack import Stack
from tests.integration.reading import Reading, beginning, reader, seq_reached

STREAMS = 50
TOKENS = 120


async def all_exact(stack: Stack, readings: list[Reading]) -> None:
    for reading in readings:
        text, seq = await asyncio.to_thread(stack.logged, reading.generation_id)
        assert (reading.text, seq, reading.done) == (text, TOKENS, True)
        settled = await asyncio.to_thread(stack.settled, reading.generation_id)
        assert (settled["state"], settled["output_tokens"]) == ("finished", TOKENS)


async def under_way(readings: list[Reading], tokens: int) -> None:
    async with asyncio.timeout(90):
        while any(reading.seq < tokens for reading in readings):
            await asyncio.sleep(0.01)


def incarnations(stack: Stack, generation_id: str) -> list[str]:
    """Who has had it, in order."""
    entries = stack.log(generation_id)
    return [entry.incarnation for entry in entries if hasattr(entry, "incarnation")]


async def test_a_web_process_killed_under_fifty_streams(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_DETACH_GRACE_S="10")
    assert stack.web is not None
    _other, url = await asyncio.to_thread(stack.start_web)
    readings = [Reading() for _ in range(STREAMS)]
    async with reader(stack) as by, reader(stack, url=url) as elsewhere:
        asking = [
            asyncio.create_task(by.ask(reading, text=f"question {number}", max_tokens=TOKENS))
            for number, reading in enumerate(readings)
        ]
        await under_way(readings, 3)
        await asyncio.to_thread(stack.web.kill)
        await asyncio.gather(*asking)
        assert not any(reading.done for reading in readings)
        await asyncio.gather(*(elsewhere.to_the_end(reading) for reading in readings))
    await all_exact(stack, readings)
    made = stack.store.rows("SELECT sum(output_tokens) AS n FROM inference_generation")
    assert made == [{"n": STREAMS * TOKENS}]
    # Nobody noticed in the engine.
    assert all(len(incarnations(stack, each.generation_id)) == 1 for each in readings)


async def test_a_web_process_that_drains_sends_its_readers_elsewhere(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_DETACH_GRACE_S="10")
    web, url = await asyncio.to_thread(stack.start_web, "--drain-grace", "4")
    readings = [Reading() for _ in range(5)]
    async with reader(stack) as by, reader(stack, url=url) as draining:
        asking = [
            asyncio.create_task(draining.ask(reading, text=f"question {number}", max_tokens=TOKENS))
            for number, reading in enumerate(readings)
        ]
        await under_way(readings, 3)
        web.send_signal(signal.SIGTERM)
        await asyncio.gather(*asking)
        codes = {reading.error["code"] if reading.error else None for reading in readings}
        assert codes == {"server_restarting"}
        assert await asyncio.to_thread(web.wait) == 0
        await asyncio.gather(*(by.to_the_end(reading) for reading in readings))
    await all_exact(stack, readings)


async def test_an_engine_host_that_drains_hands_over_to_another(own_stack: OwnStack) -> None:
    # Slow enough that the other is up before they end.
    stack = own_stack(NEHIR_DRAIN_GRACE_S="1", NEHIR_FAKE_ITL_MS="200")
    assert stack.engine is not None
    readings = [Reading() for _ in range(8)]
    async with reader(stack) as by:
        asking = [
            asyncio.create_task(by.ask(reading, text=f"question {number}", max_tokens=TOKENS))
            for number, reading in enumerate(readings)
        ]
        await under_way(readings, 3)
        await asyncio.to_thread(stack.start_engine, replica="engine-2")
        stack.engine.send_signal(signal.SIGTERM)
        await asyncio.gather(*asking)
        assert await asyncio.to_thread(stack.engine.wait) == 0
    await all_exact(stack, readings)
    for reading in readings:
        assert reading.error is None
        assert len(set(incarnations(stack, reading.generation_id))) == 2


async def test_without_another_it_waits_for_the_next(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_DRAIN_GRACE_S="0")
    assert stack.engine is not None
    async with reader(stack) as by, beginning(by, max_tokens=TOKENS) as reading:
        stack.engine.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(stack.engine.wait) == 0
        assert stack.waiting() == 1
        assert stack.replicas() == []
        before = reading.seq
        assert before < TOKENS
        await asyncio.to_thread(stack.start_engine)
        async with asyncio.timeout(60):
            while not reading.done:
                await asyncio.sleep(0.01)
        assert reading.error is None
    await all_exact(stack, [reading])


async def test_what_finishes_within_the_grace_is_not_handed_over(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="20")
    assert stack.engine is not None
    async with reader(stack) as by, beginning(by, max_tokens=TOKENS) as reading:
        stack.engine.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            while not reading.done:
                await asyncio.sleep(0.01)
        assert await asyncio.to_thread(stack.engine.wait) == 0
    await all_exact(stack, [reading])
    assert len(incarnations(stack, reading.generation_id)) == 1


async def test_a_drain_takes_along_what_waits_for_its_reader(own_stack: OwnStack) -> None:
    """A held one would never finish within the grace."""
    stack = own_stack(NEHIR_DRAIN_GRACE_S="1", NEHIR_DETACH_GRACE_S="60")
    assert stack.engine is not None
    async with reader(stack) as by:
        async with beginning(by, max_tokens=TOKENS) as reading:
            pass
        while await asyncio.to_thread(stack.held) == 0:
            await asyncio.sleep(0.05)
        stack.engine.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(stack.engine.wait) == 0
        assert stack.waiting() == 1
        await asyncio.to_thread(stack.start_engine)
        await seq_reached(stack, reading.generation_id, reading.seq + 1)
        await by.to_the_end(reading)
    await all_exact(stack, [reading])
