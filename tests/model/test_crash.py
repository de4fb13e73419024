"""The engine killed in mid-stream. Each costs a reload, so these run last (see conftest)."""

from __future__ import annotations

from collections.abc import Callable

import openai
import psutil
import pytest

from inference.messages import ReplicaRecord
from tests.ground.install import LOAD_S, Install
from tests.ground.processes import wait_until
from tests.model.asking import ask, listen, user

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(600)]

STORY = user("Write a long story about a river and its people.")


def stream_and_kill(install: Install, victim: Callable[[], psutil.Process]) -> str:
    """Kill in mid-stream, and return the generation's id once its reader was told."""
    doomed = victim()
    stream = iter(ask(install.openai(), STORY, max_tokens=2000, stream=True))
    text = ""
    while len(text) < 40:
        chunk = next(stream)
        text += chunk.choices[0].delta.content or ""
    doomed.kill()
    with pytest.raises(openai.APIError) as told:
        list(stream)
    assert told.value.code == "engine_lost"
    with pytest.raises(StopIteration):
        next(stream)
    settled = install.settled(chunk.id)
    assert (settled["state"], settled["error_code"]) == ("failed", "engine_lost")
    assert settled["output_tokens"] > 0
    return str(chunk.id)


def others(install: Install, than: ReplicaRecord) -> list[ReplicaRecord]:
    return [known for known in install.replicas() if known.incarnation != than.incarnation]


def test_an_engine_core_that_is_killed_is_replaced(model_install: Install) -> None:
    (lost,) = model_install.replicas()
    stream_and_kill(model_install, model_install.engine_core)
    wait_until(
        lambda: (
            {(known.state, known.replica) for known in others(model_install, lost)}
            == {("ready", lost.replica)}
        ),
        what="another engine host is ready in the lost one's place",
        within_s=LOAD_S,
    )
    assert "Paris" in listen(model_install.openai(), user("What is the capital of France?")).text


def test_a_host_that_is_killed_leaves_no_stream_hanging(model_install: Install) -> None:
    stream_and_kill(model_install, model_install.engine_host)
