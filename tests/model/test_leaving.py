from __future__ import annotations

import pytest

from tests.ground.install import Install
from tests.ground.processes import wait_until
from tests.model.asking import ask, listen, user

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

# What this model makes in a second on a good day, and so the most after its client has left.
TOKENS_A_SECOND = 60


def test_the_engine_stops_when_its_client_leaves(model_install: Install) -> None:
    story = user("Write a long story about a river and its people.")
    stream = ask(model_install.openai(), story, max_tokens=2000, stream=True)
    heard = 0
    for chunk in stream:
        heard += bool(chunk.choices[0].delta.content)
        if heard and model_install.running() == 1:
            break
    stream.close()

    settled = model_install.settled(chunk.id)
    assert settled["state"] == "cancelled"
    assert heard <= settled["output_tokens"] <= heard + TOKENS_A_SECOND
    wait_until(lambda: model_install.running() == 0, what="nothing runs in the engine")


def test_a_client_that_leaves_does_not_disturb_another(model_install: Install) -> None:
    leaving = ask(model_install.openai(), user("Tell me a story."), max_tokens=500, stream=True)
    next(iter(leaving))
    leaving.close()
    heard = listen(model_install.openai("globex"), user("What is the capital of France?"))
    assert "Paris" in heard.text
