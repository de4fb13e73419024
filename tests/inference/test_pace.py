from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.host.pace import Pace


def test_the_pace_is_what_was_made_lately() -> None:
    pace = Pace(span_s=5)
    assert pace.beat(100, now=0) == 0
    assert pace.beat(110, now=1) == 10
    assert pace.beat(130, now=2) == 15
    # What lies further back than two seconds is forgotten.
    assert pace.beat(130, now=3) == 10
    assert pace.beat(130, now=4) == 0
    # After a silence, what was made in it.
    assert pace.beat(430, now=14) == 30


def test_a_clock_that_stands_still_is_no_pace() -> None:
    pace = Pace(span_s=5)
    assert [pace.beat(made, now=7) for made in (0, 10, 20)] == [0, 0, 0]
    assert pace.span_ended(20, now=7) is None


def test_spans_follow_one_another_without_a_gap() -> None:
    pace = Pace(span_s=5)
    assert [pace.span_ended(made, now=now) for made, now in ((0, 0), (40, 4))] == [None, None]
    assert pace.span_ended(60, now=6) == 10
    assert pace.span_ended(70, now=10) is None
    assert pace.span_ended(90, now=11) == 6


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0.01, 30)), min_size=1, max_size=60))
def test_the_pace_is_never_beyond_the_fastest_beat(beats: list[tuple[int, float]]) -> None:
    pace, tokens, now = Pace(span_s=5), 0, 0.0
    pace.beat(tokens, now=now)
    fastest = 0.0
    for made, seconds in beats:
        tokens, now = tokens + made, now + seconds
        fastest = max(fastest, made / seconds)
        assert 0 <= pace.beat(tokens, now=now) <= fastest * (1 + 1e-6) + 1e-6


def test_what_is_kept_does_not_grow() -> None:
    pace = Pace(span_s=5)
    for beat in range(1000):
        pace.beat(beat, now=beat * 0.4)
    assert len(pace._marks) == pytest.approx(6, abs=1)
