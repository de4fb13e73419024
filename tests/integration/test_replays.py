"""A request that comes again is answered by the generation of the first time."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking
from tests.integration.reading import Reading, beginning, reader

LONG: dict[str, Any] = {"max_tokens": 100}


def admitted(stack: Stack) -> int:
    found: int = stack.store.rows("SELECT count(*) AS n FROM inference_generation")[0]["n"]
    return found


async def ask(stack: Stack, key: str | None, *, by: str = "", **fields: Any) -> httpx.Response:
    """A whole answer."""
    headers = {"Authorization": f"Bearer {by or stack.acme.key}"}
    if key is not None:
        headers["Idempotency-Key"] = key
    async with httpx.AsyncClient(base_url=stack.url, timeout=60, trust_env=False) as client:
        return await client.post(CHAT, json=asking(**fields), headers=headers)


async def test_the_same_key_and_body_is_the_same_answer(stack: Stack) -> None:
    before = admitted(stack)
    first = await ask(stack, "key-1", max_tokens=8)
    again = await ask(stack, "key-1", max_tokens=8)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert again.headers["X-Replayed"] == "true"
    assert "X-Replayed" not in first.headers
    assert again.headers["X-Generation-Id"] == first.headers["X-Generation-Id"]
    assert admitted(stack) == before + 1


async def test_another_body_conflicts(stack: Stack) -> None:
    assert (await ask(stack, "key-2", max_tokens=4)).status_code == 200
    others: list[dict[str, Any]] = [
        {"max_tokens": 5},
        {"text": "bye"},
        {"max_tokens": 4, "seed": 1},
    ]
    for other in others:
        refused = await ask(stack, "key-2", **other)
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "idempotency_conflict"


async def test_others_have_keys_of_their_own(stack: Stack) -> None:
    keys = (stack.acme.key, stack.acme.other_key, stack.globex.key)
    replies = [await ask(stack, "key-3", by=key) for key in keys]
    # With another body, too: it is nobody else's key.
    replies.append(await ask(stack, "key-3", by=stack.globex.other_key, max_tokens=9))
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.headers["X-Generation-Id"] for reply in replies}) == 4
    assert not any("X-Replayed" in reply.headers for reply in replies)


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_keys_that_are_none(stack: Stack, key: str) -> None:
    refused = await ask(stack, key)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "Idempotency-Key"


async def test_a_running_one_is_joined(stack: Stack) -> None:
    before = admitted(stack)
    async with reader(stack) as by, beginning(by, key="key-4", **LONG) as reading:
        joined = await by.ask(key="key-4", **LONG)
        async with asyncio.timeout(60):
            while not reading.done:
                await asyncio.sleep(0.01)
    assert joined.replayed
    assert not reading.replayed
    assert (joined.text, joined.usage) == (reading.text, reading.usage)
    assert admitted(stack) == before + 1
    settled = await asyncio.to_thread(stack.settled, reading.generation_id)
    assert settled["output_tokens"] == 100


@pytest.mark.parametrize("times", [2, 8])
async def test_of_some_at_once_one_is_made(stack: Stack, times: int) -> None:
    before = admitted(stack)
    async with reader(stack) as by:
        readings = await asyncio.gather(
            *(by.ask(key=f"key-5-{times}", max_tokens=30) for _ in range(times))
        )
    assert [reading.error for reading in readings] == [None] * times
    assert admitted(stack) == before + 1
    assert len({reading.text for reading in readings}) == 1
    assert sorted(reading.replayed for reading in readings) == [False, *[True] * (times - 1)]


async def test_a_whole_answer_whose_client_left_is_picked_up(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="20", NEHIR_DETACH_GRACE_S="2")
    headers = {"Authorization": f"Bearer {stack.acme.key}", "Idempotency-Key": "key-6"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=asking(**LONG), timeout=1)
    (row,) = stack.store.rows("SELECT id FROM inference_generation")
    # Even so late that it was taken out of its engine meanwhile.
    await asyncio.to_thread(stack.suspended, row["id"])
    again = await ask(stack, "key-6", **LONG)
    assert again.status_code == 200
    assert again.headers["X-Generation-Id"] == row["id"]
    assert again.json()["usage"]["completion_tokens"] == 100
    text = again.json()["choices"][0]["message"]["content"]
    assert (text, 100) == stack.logged(row["id"])
    assert admitted(stack) == 1


async def test_what_failed_or_was_cancelled_is_made_anew(own_stack: OwnStack) -> None:
    # The loss of its engine is the end of an answer.
    stack = own_stack(NEHIR_TAKEOVER_LIMIT="0")
    async with reader(stack) as by:
        async with beginning(by, key="key-7", **LONG) as cancelled:
            await by.end(cancelled.generation_id)
        await asyncio.to_thread(stack.settled, cancelled.generation_id)
        async with beginning(by, key="key-7", **LONG) as failed:
            assert failed.generation_id != cancelled.generation_id
            assert stack.engine is not None
            await asyncio.to_thread(stack.engine.kill)
            async with asyncio.timeout(60):
                while failed.error is None:
                    await asyncio.sleep(0.01)
        await asyncio.to_thread(stack.settled, failed.generation_id)
        await asyncio.to_thread(stack.start_engine)
        again = await by.ask(key="key-7", **LONG)
    assert again.done
    assert again.generation_id not in (failed.generation_id, cancelled.generation_id)
    assert not again.replayed


async def test_a_key_is_forgotten_after_its_time(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_REPLAY_TTL_S="1")
    first = await ask(stack, "key-8", max_tokens=2)
    expired = "SELECT 1 FROM inference_replaykey WHERE expires_at < :now"
    await asyncio.to_thread(wait_until, lambda: _is_past(stack, expired), what="it has expired")
    other = await ask(stack, "key-8", max_tokens=3)
    assert (first.status_code, other.status_code) == (200, 200)
    assert "X-Replayed" not in other.headers


def _is_past(stack: Stack, query: str) -> bool:
    from django.utils import timezone

    return bool(stack.store.rows(query, now=timezone.now().strftime("%Y-%m-%d %H:%M:%S.%f")))


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({"model": "repeatable", "temperature": 0}, True),
        ({"model": "repeatable", "seed": 7}, True),
        ({"model": "repeatable"}, False),
        ({"model": "repeatable", "temperature": 1}, False),
        ({"model": "fake", "temperature": 0}, False),
    ],
)
async def test_the_same_content_where_the_route_allows_it_and_one_answer_is_possible(
    stack: Stack, fields: dict[str, Any], again: bool
) -> None:
    asked: dict[str, Any] = {"text": f"content {sorted(fields)}", "max_tokens": 6} | fields
    first, second = await ask(stack, None, **asked), await ask(stack, None, **asked)
    strangers = await ask(stack, None, by=stack.globex.key, **asked)
    assert {reply.status_code for reply in (first, second, strangers)} == {200}
    assert ("X-Replayed" in second.headers) is again
    assert "X-Replayed" not in strangers.headers
    longer = await ask(stack, None, **asked | {"max_tokens": 7})
    assert "X-Replayed" not in longer.headers
    if again:
        assert second.json() == first.json()


async def test_a_replay_can_be_gone_on_from_like_any_other(stack: Stack) -> None:
    async with reader(stack) as by:
        first = await by.ask(key="key-9", max_tokens=20)
        replayed = await by.ask(key="key-9", max_tokens=20)
        assert replayed.replayed
        half = next(event for event in replayed.events if (event.id or 0) > 5)
        assert half.id is not None
        words = first.text.split(" ")
        behind = Reading(first.generation_id, " ".join(words[: half.id]) + " ", half.id)
        await by.go_on(behind)
    assert behind.text == first.text
