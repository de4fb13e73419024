"""Redis is killed and comes back, with nothing, with everything, or as it was a while ago: nobody
has to be started again.
"""

from __future__ import annotations

import asyncio
import signal
import time

import httpx

from inference.engine.fake import word
from inference.engine.tokenizer import FakePromptRenderer
from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming
from tests.integration.reading import Reading, beginning, reader, seq_reached


def refused(stack: Stack) -> httpx.Response:
    with client_of(stack) as client:
        return client.post(CHAT, json=asking())


def ready(stack: Stack) -> httpx.Response:
    return httpx.get(f"{stack.url}/readyz", timeout=10)


def answered(stack: Stack) -> bool:
    """Whether a whole answer is made again."""
    with client_of(stack) as client:
        return client.post(CHAT, json=asking(), timeout=60).status_code == 200


def test_clear_refusals_then_recovery_without_a_restart(own_stack: OwnStack) -> None:
    stack = own_stack()
    assert stack.engine is not None
    assert stack.web is not None
    with client_of(stack) as client, streaming(client, max_tokens=256) as stream:
        stream.words(3)
        stack.valkey.kill()
        events = list(stream.events())
    assert events[-1]["error"]["code"] == "service_unavailable"
    reply = refused(stack)
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "service_unavailable"
    assert reply.headers["Retry-After"]
    probed = ready(stack)
    assert probed.status_code == 503
    assert probed.json()["checks"]["redis"] == {"ok": False, "reason": "unreachable"}
    assert httpx.get(f"{stack.url}/healthz").status_code == 200
    with client_of(stack) as client:
        assert client.get("/v1/models").status_code == 200
    # Whether another replica goes on with it, nobody can tell before Redis is back.
    assert stack.generation(stream.generation_id)["state"] == "open"

    stack.valkey.start()
    found = stack.settled(stream.generation_id)
    assert (found["state"], found["error_code"]) == ("failed", "log_lost")
    wait_until(lambda: ready(stack).status_code == 200, what="ready again")
    assert answered(stack)
    stack.wait_until_idle()
    for process in (stack.engine, stack.web):
        process.check_alive()


def test_a_short_stall_is_only_a_pause(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_FAKE_ITL_MS="5")
    with client_of(stack) as client, streaming(client, max_tokens=200) as stream:
        stream.words(1)
        stack.valkey.pause()
        time.sleep(1)
        stack.valkey.resume()
        events = list(stream.events())
    assert [event for event in events if "error" in event] == []
    assert stack.settled(stream.generation_id)["output_tokens"] == 200


ONE_RUNS = {"NEHIR_ENGINE_MAX_RUNNING": "1", "NEHIR_DETACH_GRACE_S": "30"}
TOKENS = 40


def undisturbed(text: str) -> str:
    prompt = FakePromptRenderer().render([{"role": "user", "content": text}])
    return "".join(word(prompt, position)[1] for position in range(TOKENS))


async def test_with_its_data_what_runs_and_what_waits_goes_on(own_stack: OwnStack) -> None:
    stack = await asyncio.to_thread(own_stack, **ONE_RUNS)
    async with (
        reader(stack) as by,
        beginning(by, text="runs", max_tokens=TOKENS) as runs,
        beginning(by, tokens=0, text="waits", max_tokens=TOKENS) as waits,
    ):
        await until_waiting(stack)
        # Nothing is appended between its last breath and its first.
        assert stack.engine is not None
        stack.engine.send_signal(signal.SIGSTOP)
        stack.valkey.save()
        stack.valkey.kill()
        await asyncio.to_thread(stack.valkey.start)
        stack.engine.send_signal(signal.SIGCONT)
        for reading, text in ((runs, "runs"), (waits, "waits")):
            await by.to_the_end(reading)
            assert reading.text == undisturbed(text)
            found = await asyncio.to_thread(stack.settled, reading.generation_id)
            assert (found["state"], found["output_tokens"]) == ("finished", TOKENS)
    await asyncio.to_thread(stack.wait_until_idle)


async def test_with_its_data_of_a_while_ago_nothing_wrong_is_told(own_stack: OwnStack) -> None:
    """As after a fail-over to a replica that lagged: tokens that readers may have are in no log.
    What is missing is told as a gap where it is, and the bill is for all that was made.
    """
    stack = await asyncio.to_thread(own_stack, **ONE_RUNS)
    async with reader(stack) as by, beginning(by, text="runs", max_tokens=TOKENS) as runs:
        await asyncio.to_thread(stack.valkey.save)
        await seq_reached(stack, runs.generation_id, runs.seq + 10)
        stack.valkey.kill()
        await asyncio.to_thread(stack.valkey.start)
        # Behind its reader's position until the host has written on.
        found = await asyncio.to_thread(stack.settled, runs.generation_id)
        anew = await by.to_the_end(Reading(runs.generation_id))
        had = runs.seq
        await by.to_the_end(runs)
    words = undisturbed("runs").split(" ")
    assert runs.text == " ".join(words[:had] + words[had + runs.missed :])
    assert anew.missed > 0
    assert len(anew.text.split(" ")) == len(words) - anew.missed
    assert anew.text.split(" ")[:3] == words[:3]
    assert (found["state"], found["output_tokens"]) == ("finished", TOKENS)
    await asyncio.to_thread(wait_until, lambda: answered(stack), what="others are answered")
    await asyncio.to_thread(stack.wait_until_idle)


async def test_without_its_data_who_waits_is_told_as_well(own_stack: OwnStack) -> None:
    stack = await asyncio.to_thread(own_stack, **ONE_RUNS)
    async with (
        reader(stack) as by,
        beginning(by, text="runs", max_tokens=256),
        beginning(by, tokens=0, text="waits", max_tokens=TOKENS) as waits,
    ):
        await until_waiting(stack)
        stack.valkey.kill()
        await asyncio.to_thread(stack.valkey.start)
        async with asyncio.timeout(30):
            while waits.error is None:
                await asyncio.sleep(0.02)
        assert waits.error["code"] == "service_unavailable"
        await by.go_on(waits)
        assert waits.error["code"] == "log_expired"
        assert (waits.text, waits.done) == ("", False)
    await asyncio.to_thread(wait_until, lambda: answered(stack), what="others are answered")


async def until_waiting(stack: Stack) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(stack.waiting) != 1:
            await asyncio.sleep(0.02)
