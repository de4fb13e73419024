from __future__ import annotations

import json

import httpx
import pytest

from tests.ground.install import Install
from tests.ground.processes import wait_until
from tests.model.asking import ask, listen, user

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

# What this model makes in a second on a good day, and so the most after its client has left.
TOKENS_A_SECOND = 60


def test_the_engine_stops_when_its_client_leaves_and_goes_on_when_it_is_back(
    model_install: Install,
) -> None:
    story = user("Write a long story about a river and its people.")
    stream = ask(model_install.openai(), story, max_tokens=150, stream=True)
    heard = ""
    for chunk in stream:
        heard += chunk.choices[0].delta.content or ""
        if heard and model_install.running() == 1:
            break
    stream.close()
    wait_until(lambda: model_install.running() == 0, what="the engine holds what nobody reads")

    resumed = resume(model_install, chunk.id)
    assert resumed.startswith(heard)
    assert resumed == model_install.log_text(chunk.id)
    settled = model_install.settled(chunk.id)
    assert (settled["state"], settled["output_tokens"]) == ("finished", 150)


def test_an_answer_that_is_deleted_stops_in_the_engine(model_install: Install) -> None:
    story = user("Write a long story about a river and its people.")
    stream = ask(model_install.openai(), story, max_tokens=2000, stream=True)
    heard = 0
    for chunk in stream:
        heard += bool(chunk.choices[0].delta.content)
        if heard and model_install.running() == 1:
            break
    delete(model_install, chunk.id)

    settled = model_install.settled(chunk.id)
    assert settled["state"] == "cancelled"
    assert heard <= settled["output_tokens"] <= heard + TOKENS_A_SECOND
    model_install.wait_until_idle()


def resume(install: Install, generation_id: str) -> str:
    """The whole answer from its beginning, read to its end."""
    text = ""
    url = f"{install.url}/v1/generations/{generation_id}/events"
    with httpx.stream("GET", url, headers=_key(install), timeout=120, trust_env=False) as response:
        for line in response.iter_lines():
            data = line.removeprefix("data: ")
            if data != line and data != "[DONE]":
                choices = json.loads(data).get("choices") or [{"delta": {}}]
                text += choices[0]["delta"].get("content") or ""
    return text


def delete(install: Install, generation_id: str) -> None:
    url = f"{install.url}/v1/generations/{generation_id}"
    httpx.delete(url, headers=_key(install), trust_env=False).raise_for_status()


def _key(install: Install) -> dict[str, str]:
    return {"Authorization": f"Bearer {install.tenant('acme')['api_key']}"}


def test_a_client_that_leaves_does_not_disturb_another(model_install: Install) -> None:
    leaving = ask(model_install.openai(), user("Tell me a story."), max_tokens=500, stream=True)
    next(iter(leaving))
    leaving.close()
    heard = listen(model_install.openai("globex"), user("What is the capital of France?"))
    assert "Paris" in heard.text
