"""Redis is killed, loses everything, and comes back: nobody has to be started again."""

from __future__ import annotations

import time

import httpx

from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.ground.stack import Stack
from tests.integration.asking import CHAT, asking, client_of, streaming


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
