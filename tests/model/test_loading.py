from __future__ import annotations

import json

import pytest

from tests.ground.install import Install
from tests.ground.loading import Loading
from tests.model.asking import MODEL

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]


def test_readiness_waits_for_the_model(loading: Loading, model_install: Install) -> None:
    assert loading.readiness.status_code == 503
    assert loading.readiness.json() == {
        "ready": False,
        "checks": {
            "database": {"ok": True},
            "redis": {"ok": True},
            "engine": {"ok": False, "reason": "loading"},
        },
    }
    assert model_install.status("/readyz") == 200


def test_the_chat_says_that_the_model_is_loading(loading: Loading) -> None:
    models = [{"name": MODEL, "state": "loading"}]
    assert loading.hello == {"type": "hello", "protocol": 1, "models": models}


def test_a_request_made_while_loading_waits_and_is_answered(loading: Loading) -> None:
    assert loading.accepted_status == 200
    assert loading.lines[-1] == "data: [DONE]"
    comments = [line for line in loading.lines if line.startswith(":")]
    chunks = [
        json.loads(line.removeprefix("data: "))
        for line in loading.lines[:-1]
        if line.startswith("data: ")
    ]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert (
        "".join(delta.get("content", "") for delta in deltas) == "The capital of France is Paris."
    )
    # It waited for long enough to be told that it does, before any of the answer came.
    assert comments
    assert loading.lines[1] == ": queued position=1"
