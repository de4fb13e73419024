"""An answer is read on from where it was cut off, over real sockets and a network that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from inference import redis_keys
from tests.conftest import OwnStack
from tests.ground.fault_proxy import between
from tests.ground.stack import Stack
from tests.integration.asking import asking
from tests.integration.reading import EventParser, Reader, Reading, beginning, reader, seq_reached

LONG: dict[str, Any] = {"max_tokens": 120}
GENERATIONS = "/v1/generations"


async def whole(stack: Stack, reading: Reading) -> None:
    """What the client has is exactly what is in the log, and was counted once."""
    text, seq = await asyncio.to_thread(stack.logged, reading.generation_id)
    assert (reading.text, reading.seq, reading.missed) == (text, seq, 0)
    settled = await asyncio.to_thread(stack.settled, reading.generation_id)
    assert settled["output_tokens"] == seq
    assert reading.usage is not None
    assert reading.usage["completion_tokens"] == seq


async def finished(stack: Stack, by: Reader) -> Reading:
    """An answer of the past, read to its end."""
    reading = await by.ask(max_tokens=20)
    assert reading.done
    await asyncio.to_thread(stack.settled, reading.generation_id)
    return reading


async def get(stack: Stack, path: str, key: str = "", **headers: str) -> httpx.Response:
    authorization = {"Authorization": f"Bearer {key or stack.acme.key}"}
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as client:
        return await client.get(path, headers=authorization | headers)


@pytest.mark.parametrize("seed", range(3))
async def test_cut_off_again_and_again(stack: Stack, seed: int) -> None:
    async with (
        between(stack.url, reset_after=1_500 + 700 * seed) as proxy,
        reader(stack, url=proxy.url) as by,
    ):
        reading = await by.ask(**LONG)
        cuts = 0
        while not reading.done and cuts < 60:
            await by.go_on(reading)
            assert reading.error is None
            cuts += 1
    assert cuts > 3
    await whole(stack, reading)


async def test_every_position_that_was_sent_can_be_gone_on_from(stack: Stack) -> None:
    async with reader(stack) as by:
        first = await finished(stack, by)
        ids = sorted({event.id for event in first.events if event.id is not None})
        texts = {0: ""}
        again = Reading()
        for event in first.events:
            if event.data and event.data != "[DONE]":
                again.take(event)
                texts[again.seq] = again.text
        for position in [0, *ids]:
            behind = Reading(first.generation_id, texts[position], position)
            await by.go_on(behind)
            assert (behind.text, behind.done) == (first.text, True)
            await whole(stack, behind)


async def test_two_places_at_once(stack: Stack) -> None:
    second, url = await asyncio.to_thread(stack.start_web)
    async with reader(stack) as here, reader(stack, url=url) as there:
        async with beginning(here, tokens=5, **LONG) as reading:
            others = [Reading(reading.generation_id) for _ in range(3)]
            await asyncio.gather(*(there.to_the_end(other) for other in others))
            async with asyncio.timeout(60):
                while not reading.done:
                    await asyncio.sleep(0.01)
        for each in (reading, *others):
            await whole(stack, each)
    second.end()


async def test_after_it_was_suspended(stack: Stack) -> None:
    async with reader(stack) as by:
        async with beginning(by, **LONG) as reading:
            pass
        state = await by.state(reading.generation_id)
        assert (state["state"], state["resumable"]) == ("open", True)
        checkpoint = await asyncio.to_thread(stack.suspended, reading.generation_id)
        state = await by.state(reading.generation_id)
        assert (state["state"], state["resumable"]) == ("suspended", True)
        assert state["position"] == state["usage"]["completion_tokens"] == checkpoint["seq"]
        await by.to_the_end(reading)
        await whole(stack, reading)
        state = await by.state(reading.generation_id)
        assert (state["state"], state["position"], state["resumable"]) == ("finished", 120, False)
    query = "SELECT 1 FROM inference_checkpoint WHERE generation_id = :id"
    assert stack.store.rows(query, id=reading.generation_id) == []


async def test_two_that_come_back_at_once_revive_it_once(stack: Stack) -> None:
    second, url = await asyncio.to_thread(stack.start_web)
    async with reader(stack) as here, reader(stack, url=url) as there:
        async with beginning(here, **LONG) as reading:
            pass
        await asyncio.to_thread(stack.suspended, reading.generation_id)
        again = Reading(reading.generation_id)
        await asyncio.gather(here.to_the_end(reading), there.to_the_end(again))
        await whole(stack, reading)
        await whole(stack, again)
    second.end()


@pytest.mark.parametrize("given", ["-1", "1.5", "abc", "٣", "9" * 40, "0x1", "1 2"])
async def test_a_position_that_is_none(stack: Stack, given: str) -> None:
    async with reader(stack) as by:
        made = await finished(stack, by)
    path = f"{GENERATIONS}/{made.generation_id}/events"
    replies = [await get(stack, f"{path}?after={given}")]
    if given.isascii():
        replies.append(await get(stack, path, **{"Last-Event-ID": given}))
    for reply in replies:
        assert reply.status_code == 400
        assert reply.json()["error"]["code"] == "invalid_request"


async def test_a_position_that_was_never_sent(own_stack: OwnStack) -> None:
    """Tokens that left the engine while Redis was slow lie in one entry, which is never split."""
    stack = own_stack(NEHIR_FAKE_ITL_MS="5")
    async with reader(stack) as by, beginning(by, tokens=1, **LONG) as reading:
        stack.valkey.pause()
        await asyncio.sleep(0.5)
        stack.valkey.resume()
        async with asyncio.timeout(60):
            while not reading.done:
                await asyncio.sleep(0.01)
    entries = await asyncio.to_thread(stack.log, reading.generation_id)
    large = next(entry for entry in entries if len(getattr(entry, "token_ids", ())) > 2)
    path = f"{GENERATIONS}/{reading.generation_id}/events?after="
    for position in (large.seq - 1, 121, 10**11):
        reply = await get(stack, f"{path}{position}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_position")
    for position in (large.seq, large.seq - len(large.token_ids), 120):  # type: ignore[union-attr]
        assert (await get(stack, f"{path}{position}")).status_code == 200


async def test_anothers_answer_is_as_good_as_none(stack: Stack) -> None:
    async with reader(stack) as by:
        made = await finished(stack, by)
    for generation_id in (made.generation_id, "gen_unknown"):
        for key in (stack.globex.key, stack.acme.other_key):
            for path in ("", "/events", "/events?after=3"):
                reply = await get(stack, f"{GENERATIONS}/{generation_id}{path}", key)
                error = reply.json()["error"]
                assert (reply.status_code, error["code"]) == (404, "generation_not_found")
                assert error["message"] == "There is no such generation."
    async with httpx.AsyncClient(base_url=stack.url) as client:
        for key in (stack.globex.key, stack.acme.other_key):
            headers = {"Authorization": f"Bearer {key}"}
            reply = await client.delete(f"{GENERATIONS}/{made.generation_id}", headers=headers)
            assert reply.status_code == 404
        assert (await client.get(f"{GENERATIONS}/{made.generation_id}")).status_code == 401


async def test_after_its_log_has_expired(stack: Stack) -> None:
    async with reader(stack) as by:
        made = await finished(stack, by)
        with stack.redis as redis:
            assert redis.delete(redis_keys.log(stack.acme.id, made.generation_id)) == 1
        late = Reading(made.generation_id)
        await by.go_on(late)
        assert late.error is not None
        assert late.error["code"] == "log_expired"
        assert "finished, with 20 tokens" in late.error["message"]
        state = await by.state(made.generation_id)
    assert (state["state"], state["position"], state["resumable"]) == ("finished", 20, False)


async def test_a_log_trimmed_under_its_readers(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="30")
    async with reader(stack) as by, between(stack.url) as proxy:
        async with reader(stack, url=proxy.url) as cut:
            async with beginning(cut, tokens=3, **LONG) as reading:
                proxy.reset_all()
                key = redis_keys.log(stack.acme.id, reading.generation_id)
                # Kept going by this one, which misses nothing.
                going_on = asyncio.create_task(by.to_the_end(Reading(reading.generation_id)))
                await seq_reached(stack, reading.generation_id, reading.seq + 20)
            with stack.redis as redis:
                redis.xtrim(key, maxlen=2, approximate=False)
            before = len(reading.text)
            await by.to_the_end(reading)
        whole_text = (await going_on).text
    gaps = [event for event in reading.events if event.name == "gap"]
    assert len(gaps) == 1
    assert reading.missed >= 18
    assert whole_text.startswith(reading.text[:before])
    assert whole_text.endswith(reading.text[before:])
    assert len(reading.text.split()) + reading.missed == 120


async def test_bytes_split_everywhere_are_the_same_answer(stack: Stack) -> None:
    """Turkish words among them, whose letters have two bytes."""
    async with (
        between(stack.url, single_bytes=True) as proxy,
        reader(stack, url=proxy.url) as by,
    ):
        reading = await by.ask(max_tokens=40)
    assert reading.done
    await whole(stack, reading)
    assert not reading.text.isascii()


async def test_line_ends_of_any_kind_and_cuts_anywhere_parse_alike(stack: Stack) -> None:
    """As a proxy may rewrite them."""
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as client:
        headers = {"Authorization": f"Bearer {stack.acme.key}"}
        asked = asking(stream=True, max_tokens=24)
        raw = (await client.post("/v1/chat/completions", json=asked, headers=headers)).content
    wanted = list(EventParser().feed(raw))
    assert wanted[-1].data == "[DONE]"
    for line_end in (b"\n", b"\r", b"\r\n"):
        ended = raw.replace(b"\n", line_end)
        for cut in range(len(ended)):
            if cut % 7 and cut > 400:
                continue
            parser = EventParser()
            assert [*parser.feed(ended[:cut]), *parser.feed(ended[cut:])] == wanted


@pytest.mark.parametrize("state", ["queued", "running", "held", "suspended", "finished"])
async def test_ended_by_its_owner_in_any_state(own_stack: OwnStack, state: str) -> None:
    stack = own_stack(
        engine=state != "queued",
        NEHIR_DETACH_GRACE_S="2" if state == "suspended" else "60",
        NEHIR_FAKE_ITL_MS="20",
    )
    async with reader(stack) as by:
        tokens = {"queued": 0, "finished": 20}.get(state, 3)
        length = 20 if state == "finished" else 250
        async with beginning(by, tokens=tokens, max_tokens=length) as reading:
            while not reading.generation_id:
                await asyncio.sleep(0.01)
            if state in ("running", "queued"):
                await by.end(reading.generation_id)
                while not reading.done:
                    await asyncio.sleep(0.01)
                assert reading.finish_reason == "stop"
        if state == "held":
            while await asyncio.to_thread(stack.held) == 0:
                await asyncio.sleep(0.05)
        elif state == "suspended":
            await asyncio.to_thread(stack.suspended, reading.generation_id)
        await by.end(reading.generation_id)
        settled = await asyncio.to_thread(stack.settled, reading.generation_id)
        assert settled["state"] == ("finished" if state == "finished" else "cancelled")
        assert settled["output_tokens"] == stack.logged(reading.generation_id)[1]
        # Again, and nothing changes.
        await by.end(reading.generation_id)
        assert await asyncio.to_thread(stack.settled, reading.generation_id) == settled
        rest = await by.to_the_end(Reading(reading.generation_id))
        await whole(stack, rest)
