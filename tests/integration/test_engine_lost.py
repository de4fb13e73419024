"""The engine host dies or is told to stop in mid-stream."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import httpx
import pytest

from inference.messages import Started
from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming

LONG = {"max_tokens": 256}


class Asked:
    """A whole answer, asked for in a thread of its own."""

    def __init__(self, stack: Stack, **fields: Any) -> None:
        self._stack, self._fields = stack, fields
        self._replies: list[httpx.Response] = []
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        with client_of(self._stack, self._stack.globex) as client:
            self._replies.append(client.post(CHAT, json=asking(**self._fields), timeout=90))

    def reply(self) -> httpx.Response:
        self._thread.join(90)
        return self._replies[0]


def answer(events: list[dict[str, Any]]) -> str:
    """The text of a stream without an error."""
    assert [event for event in events if "error" in event] == []
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_killed_in_mid_stream_with_no_other_engine(own_stack: OwnStack) -> None:
    """What it ran waits, ahead of what came later, and goes on in the next."""
    stack = own_stack(NEHIR_ENGINE_MAX_RUNNING="2")
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        running = Asked(stack, **LONG)
        wait_until(lambda: len(stack.unsettled()) == 2, what="both run")
        waiting = Asked(stack, max_tokens=4)
        wait_until(lambda: stack.waiting() == 1, what="the third waits")
        stack.engine.kill()
        wait_until(lambda: stack.waiting() == 3, what="all wait")
        assert stack.unsettled() == []
        stack.start_engine()
        text = answer(list(stream.events()))
    assert (text, 256) == stack.logged(stream.generation_id)
    assert running.reply().json()["usage"]["completion_tokens"] == 256
    assert waiting.reply().status_code == 200
    settled = stack.settled(stream.generation_id)
    assert (settled["state"], settled["output_tokens"]) == ("finished", 256)
    stack.wait_until_idle()


def test_told_twice_to_stop_in_mid_stream(own_stack: OwnStack) -> None:
    """It breaks off at once, and hands back what it ran."""
    stack = own_stack()
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, max_tokens=60) as stream:
        for _ in range(2):
            stack.engine.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # or the kernel makes one signal of them
        assert stack.engine.wait() == 0
        assert stack.replicas() == []
        assert stack.unsettled() == []
        stack.start_engine()
        text = answer(list(stream.events()))
    assert (text, 60) == stack.logged(stream.generation_id)
    assert stack.settled(stream.generation_id)["output_tokens"] == 60


@pytest.mark.parametrize("other", [True, False])
def test_stopped_for_a_while_it_is_fenced_off_when_it_comes_back(
    own_stack: OwnStack, other: bool
) -> None:
    """Whether another has what it ran, or it takes that again itself."""
    stack = own_stack()
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
        stack.engine.send_signal(signal.SIGSTOP)
        if other:
            stack.start_engine(replica="engine-2")
        wait_until(lambda: len(turns(stack, stream.generation_id)) > other, what="taken over")
        stack.engine.send_signal(signal.SIGCONT)
        text = answer(list(stream.events()))
    logged = stack.logged(stream.generation_id)
    assert logged[0].endswith(text)
    assert logged[1] == 256
    settled = stack.settled(stream.generation_id)
    assert (settled["state"], settled["output_tokens"]) == ("finished", 256)
    assert len(set(turns(stack, stream.generation_id))) == 1 + other
    stack.wait_until_idle()
    assert stack.generation(stream.generation_id) == settled
    with client_of(stack) as client:
        assert client.post(CHAT, json=asking()).status_code == 200


def turns(stack: Stack, generation_id: str) -> list[str]:
    """Which incarnations have had it, in order."""
    entries = stack.log(generation_id)
    return [entry.incarnation for entry in entries if isinstance(entry, Started)]


@pytest.mark.parametrize("moment", ["waiting", "running"])
def test_a_web_process_that_dies_leaves_no_engine_running_for_ever(
    own_stack: OwnStack, moment: str
) -> None:
    stack = own_stack(engine=moment == "running", NEHIR_FAKE_ITL_MS="10")
    assert stack.web is not None
    # Of a route whose answers need no reader; one that needs one would be suspended.
    lasting = LONG | {"model": "lasting"}
    with client_of(stack) as client, streaming(client, **lasting) as stream:
        next(stream.events())
        stack.web.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(stream.events())
    if moment == "waiting":
        stack.start_engine()
    found = stack.settled(stream.generation_id)
    assert (found["state"], found["output_tokens"]) == ("finished", 256)
    stack.wait_until_idle()
