"""What is timed of a stream: from admission to what its transport is given."""

from __future__ import annotations

from prometheus_client import REGISTRY

from inference.messages import Finished, Usage
from inference.pipeline.admission import Admitted
from streaming.answer import Frame, Stopwatch
from tests.inference.making import StoppedClock

LABELS = {"transport": "timed", "model": "small"}


def timed(name: str) -> tuple[float, float]:
    """How many, and how long together."""
    read = [REGISTRY.get_sample_value(f"nehir_{name}_{each}", LABELS) for each in ("count", "sum")]
    return read[0] or 0.0, read[1] or 0.0


def frame(text: str = "", final: Finished | None = None) -> Frame:
    return Frame(3, text, 0, started=True, interrupted=None, final=final)


def test_the_first_text_and_the_last_frame_are_timed_once() -> None:
    clock = StoppedClock()
    admitted = Admitted("ten_a", "gen_a", "rel_a", "small", 3, clock.now(), 100, "hold")
    watch = Stopwatch(admitted, clock, "timed")
    first, last = timed("time_to_first_token_seconds"), timed("e2e_request_latency_seconds")
    clock.advance(1)
    watch.saw(frame())
    assert timed("time_to_first_token_seconds") == first, "nothing that could be read"
    clock.advance(1)
    watch.saw(frame("river "))
    clock.advance(3)
    watch.saw(frame("bank "))
    assert timed("e2e_request_latency_seconds") == last
    watch.saw(frame("", Finished(3, "", "stop", Usage(3, 3))))
    assert timed("time_to_first_token_seconds") == (first[0] + 1, first[1] + 2)
    assert timed("e2e_request_latency_seconds") == (last[0] + 1, last[1] + 5)
