"""Requests wait while there is no engine, and are answered when there is one."""

from __future__ import annotations

import threading

import httpx

from tests.conftest import OwnStack
from tests.ground.processes import wait_until
from tests.integration.asking import CHAT, asking, client_of, streaming


def test_they_wait_with_signs_of_life_and_are_answered_in_their_order(own_stack: OwnStack) -> None:
    stack = own_stack(engine=False)
    whole: list[httpx.Response] = []

    def ask() -> None:
        with client_of(stack, stack.globex) as client:
            whole.append(client.post(CHAT, json=asking(), timeout=60))

    with client_of(stack) as client, streaming(client, max_tokens=3) as stream:
        waiting = threading.Thread(target=ask)
        waiting.start()
        wait_until(lambda: stack.waiting() == 2, what="both wait")
        assert client_of(stack).get("/readyz").status_code == 503
        role = next(stream.events())
        assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        # Longer than any blocking read, and than the timeout of a dead connection.
        told = [line for line in (next(stream.lines), next(stream.lines)) if line]
        assert told == [": queued position=1"]
        stack.start_engine()
        events = list(stream.events())
        waiting.join(60)
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    assert len(text.split()) == 3
    assert whole[0].status_code == 200
    assert client_of(stack).get("/readyz").status_code == 200
    found = stack.store.rows("SELECT id, state FROM inference_generation ORDER BY settled_at")
    assert [row["state"] for row in found] == ["finished", "finished"]
    assert found[0]["id"] == stream.generation_id


def test_a_full_queue_says_when_to_try_again(own_stack: OwnStack) -> None:
    stack = own_stack(engine=False, NEHIR_QUEUE_LIMIT="3", NEHIR_QUEUE_LIMIT_PER_TENANT="2")
    with (
        client_of(stack) as acme,
        client_of(stack, stack.globex) as globex,
        streaming(acme, model="fleeting"),
        streaming(acme, model="fleeting"),
        streaming(globex, model="fleeting"),
    ):
        own = acme.post(CHAT, json=asking())
        everybodys = globex.post(CHAT, json=asking())
    assert "organisation" not in everybodys.json()["error"]["message"]
    for refused in (own, everybodys):
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("queue_full", "rate_limit_error")
    stack.wait_until_idle()
    with stack.redis as redis:
        assert redis.keys("nehir:queue-tenants:*") == []
