"""The engine killed in mid-stream, and its answers go on. Each costs a reload, so these run last
(see conftest).
"""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from tests.ground.install import LOAD_S, Install
from tests.ground.processes import wait_until
from tests.model.asking import ask, user, valid

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(900)]

TOKENS = 80
QUESTIONS = (
    "Write a long story about a river and its people.",
    "Explain at length why it rains.",
    "Describe a town by the sea in detail.",
)
RIVER = "Describe the river Danube and its towns as JSON."
# Long enough to be killed in its middle.
LONG = {
    "type": "object",
    "properties": {
        "towns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 12},
                    "people": {"type": "integer", "minimum": 1, "maximum": 99999},
                },
                "required": ["name", "people"],
                "additionalProperties": False,
            },
            "minItems": 3,
            "maxItems": 4,
        },
    },
    "required": ["towns"],
    "additionalProperties": False,
}
BY_SCHEMA: dict[str, Any] = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "river", "schema": LONG}},
    "max_tokens": 200,
}
FLOAT32 = "UPDATE inference_release SET engine_arguments = ? WHERE engine = ?"


class Streamed(threading.Thread):
    """An answer that is read as it comes, in a thread of its own."""

    def __init__(self, install: Install, question: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self._install = install
        self._question = question
        self._options = {"max_tokens": TOKENS} | options
        self.text = ""
        self.id = ""
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        stream = ask(self._install.openai(), user(self._question), stream=True, **self._options)
        try:
            for chunk in stream:
                self.id = chunk.id
                self.text += "".join(choice.delta.content or "" for choice in chunk.choices)
        except Exception as failure:  # noqa: BLE001 - told by the test
            self.failure = failure

    def has(self, characters: int) -> None:
        wait_until(lambda: len(self.text) >= characters, what="it has begun", within_s=LOAD_S)

    def whole(self) -> str:
        """Its text, which its log and the bill agree with."""
        self.join(LOAD_S)
        assert not self.is_alive()
        assert self.failure is None
        settled = self._install.settled(self.id)
        assert (settled["state"], self.text) == ("finished", self._install.log_text(self.id))
        assert settled["output_tokens"] == self._install.log_tokens(self.id)
        return self.text


def test_an_engine_core_that_is_killed_is_replaced_and_its_answers_go_on(
    model_install: Install,
) -> None:
    """The next one loads in float32, in which a text doesn't depend on what is computed beside."""
    (lost,) = model_install.replicas()
    model_install.execute(FLOAT32, json.dumps({"dtype": "float32"}), "vllm")
    stream = Streamed(model_install, QUESTIONS[0])
    stream.has(40)
    model_install.engine_core().kill()
    wait_until(
        lambda: model_install.status("/readyz") != httpx.codes.OK,
        what="a dead engine is not ready",
    )
    stream.whole()
    (known,) = model_install.replicas()
    assert known.incarnation != lost.incarnation


def test_an_answer_by_a_schema_goes_on_by_it(model_install: Install) -> None:
    undisturbed = Streamed(model_install, RIVER, **BY_SCHEMA).whole()
    valid(undisturbed, LONG)
    stream = Streamed(model_install, RIVER, **BY_SCHEMA)
    stream.has(len(undisturbed) // 2)
    model_install.engine_host().kill()
    assert stream.whole() == undisturbed


def test_greedy_answers_are_the_same_whenever_their_host_is_killed(model_install: Install) -> None:
    """One waits for its first token, one has begun, one is about to end."""
    undisturbed = [Streamed(model_install, question).whole() for question in QUESTIONS]
    ending = Streamed(model_install, QUESTIONS[0])
    ending.has(len(undisturbed[0]) * 3 // 4)
    begun = Streamed(model_install, QUESTIONS[1])
    begun.has(10)
    taken = model_install.taken()
    waiting = Streamed(model_install, QUESTIONS[2])
    wait_until(lambda: model_install.taken() - taken, what="the last one is taken")
    model_install.engine_host().kill()
    assert [each.whole() for each in (ending, begun, waiting)] == undisturbed
