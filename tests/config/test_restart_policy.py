"""When a child is started again: the policy alone, on a clock of the test's own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.supervisor.policy import ImpossibleTransition, Life, Phase


class HandClock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


def crash(life: Life, clock: HandClock, *, after_s: float) -> float | None:
    life.started()
    clock.seconds += after_s
    return life.exited()


def test_delays_double_up_to_half_a_minute() -> None:
    clock = HandClock()
    life = Life(clock)
    delays = [crash(life, clock, after_s=1) for _ in range(8)]
    assert delays == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_healthy_minute_begins_anew() -> None:
    clock = HandClock()
    life = Life(clock)
    assert [crash(life, clock, after_s=1) for _ in range(3)] == [1, 2, 4]
    assert crash(life, clock, after_s=59.9) == 8
    assert crash(life, clock, after_s=60) == 1
    assert crash(life, clock, after_s=1) == 2


def test_a_stopped_child_is_not_started_again() -> None:
    life = Life(HandClock())
    life.started()
    assert life.stop()
    assert life.exited() is None
    assert life.phase is Phase.STOPPED
    with pytest.raises(ImpossibleTransition):
        life.started()


def test_a_child_that_waits_has_no_process_to_end() -> None:
    clock = HandClock()
    life = Life(clock)
    crash(life, clock, after_s=1)
    assert not life.stop()
    assert life.phase is Phase.STOPPED


@given(st.lists(st.floats(min_value=0, max_value=200), max_size=30))
def test_delays_stay_in_bounds_and_grow_only_by_doubling(lifetimes: list[float]) -> None:
    clock = HandClock()
    life = Life(clock)
    before = 0.0
    for lifetime_s in lifetimes:
        delay_s = crash(life, clock, after_s=lifetime_s)
        assert delay_s is not None
        assert 1 <= delay_s <= 30
        assert delay_s in (1, min(before * 2, 30))
        before = delay_s
