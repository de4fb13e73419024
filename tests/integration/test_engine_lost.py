"""The engine host dies or is told to stop in mid-stream."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import httpx
import pytest

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


def test_killed_in_mid_stream(own_stack: OwnStack) -> None:
    stack = own_stack(NEHIR_ENGINE_MAX_RUNNING="2")
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
        running = Asked(stack, **LONG)
        wait_until(lambda: len(stack.unsettled()) == 2, what="both run")
        waiting = Asked(stack, max_tokens=4)
        wait_until(lambda: stack.waiting() == 1, what="the third waits")
        stack.engine.kill()
        events = list(stream.events())
    assert events[-1]["error"]["code"] == "engine_lost"
    assert [event for event in events[:-1] if "error" in event] == []
    broken = running.reply()
    assert broken.status_code == 503
    assert broken.json()["error"]["code"] == "engine_lost"
    assert broken.headers["Retry-After"]
    settled = stack.settled(stream.generation_id)
    assert (settled["state"], settled["error_code"]) == ("failed", "engine_lost")
    assert settled["output_tokens"] == stack.logged(stream.generation_id)[1] >= 3
    wait_until(lambda: not stack.unsettled(), what="nothing is left to settle")
    assert stack.waiting() == 1
    stack.start_engine()
    assert waiting.reply().status_code == 200
    stack.wait_until_idle()


def test_told_twice_to_stop_in_mid_stream(own_stack: OwnStack) -> None:
    stack = own_stack()
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
        for _ in range(2):
            stack.engine.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # or the kernel makes one signal of them
        events = list(stream.events())
    assert events[-1]["error"]["code"] == "engine_stopped"
    assert stack.engine.wait() == 0
    settled = stack.settled(stream.generation_id)
    assert (settled["state"], settled["error_code"]) == ("failed", "engine_stopped")
    assert settled["output_tokens"] == stack.logged(stream.generation_id)[1] >= 3
    assert stack.replicas() == []
    assert stack.unsettled() == []
    with client_of(stack) as client, streaming(client, max_tokens=2) as stream:
        stack.start_engine()
        assert [event for event in stream.events() if "error" in event] == []


def test_stopped_for_a_while_it_is_fenced_off_when_it_comes_back(own_stack: OwnStack) -> None:
    stack = own_stack()
    assert stack.engine is not None
    with client_of(stack) as client, streaming(client, **LONG) as stream:
        stream.words(3)
        stack.engine.send_signal(signal.SIGSTOP)
        events = list(stream.events())
    assert events[-1]["error"]["code"] == "engine_lost"
    settled = stack.settled(stream.generation_id)
    counted = stack.logged(stream.generation_id)[1]
    stack.engine.send_signal(signal.SIGCONT)
    # It is heard of again and serves; what it had lost stays as it was settled.
    stack.wait_for_engine()
    with client_of(stack) as client:
        assert client.post(CHAT, json=asking()).status_code == 200
    stack.wait_until_idle()
    assert stack.generation(stream.generation_id) == settled
    assert stack.logged(stream.generation_id)[1] == counted == settled["output_tokens"]


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
