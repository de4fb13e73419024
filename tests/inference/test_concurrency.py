"""How many may run, by the objectives of what runs, waits and was there lately."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.host import concurrency
from inference.host.concurrency import Concurrency
from inference.host.step_time import STEPS
from inference.objectives import Objectives
from tenants.priority import CLASSES, PriorityClass

SLOTS = 64
OBJECTIVES = Objectives({"interactive": 0.040, "batch": 0.080})
# With steps of 20 ms and 1 ms for each that runs, aimed at 95 % of it.
AT_40_MS, AT_80_MS = 18, 56


def taught(
    objectives: Objectives = OBJECTIVES, *, base_s: float = 0.020, slope_s: float = 0.001
) -> tuple[Concurrency, float]:
    """One that has seen such an engine at every load; and the time by its clock."""
    found, now = Concurrency(), 0.0
    for running in (4, 8, 16, 32, 64, 32, 16, 8, 64, 48, 48):
        took_s = base_s + slope_s * running
        for _ in range(STEPS):
            now += took_s
            for _ in range(running):
                found.delivered(took_s, now=now)
    found.objectives = objectives
    return found, now


def rooms(
    of: Concurrency, running: list[PriorityClass], now: float, *, slots: int = SLOTS
) -> dict[PriorityClass, int]:
    """By class, how many of it may join."""
    limits = of.limits(running, slots=slots, now=now)
    return {each: most - len(running) for each, most in limits.items() if most > len(running)}


def limit(of: Concurrency, now: float, *running: PriorityClass) -> int:
    return of.limit(running, slots=SLOTS, now=now)


def test_without_an_objective_all_slots_may_run() -> None:
    for found, now in (taught(Objectives()), (Concurrency(), 0.0)):
        assert rooms(found, ["batch"] * 3, now) == dict.fromkeys(CLASSES, 61)
        assert found.objective_s(["batch"], now=now) is None


def test_the_tightest_objective_of_what_runs_counts() -> None:
    found, now = taught()
    assert limit(found, now, "standard") == SLOTS
    assert limit(found, now, "standard", "batch") == AT_80_MS
    assert found.objective_s(["batch"], now=now) == 0.080
    assert limit(found, now, "batch", "interactive") == AT_40_MS


def test_batch_by_itself_goes_further_and_no_interactive_one_joins_it_there() -> None:
    found, now = taught()
    batch: list[PriorityClass] = ["batch"] * 30
    assert rooms(found, batch, now) == {"standard": 26, "batch": 26}
    assert rooms(found, batch[:18], now) == {"standard": 38, "batch": 38}
    assert rooms(found, batch[:17], now) == {"interactive": 1, "standard": 39, "batch": 39}


@pytest.mark.parametrize("how", ["ran", "waited"])
def test_room_is_kept_for_a_class_that_was_there_lately(how: str) -> None:
    found, now = taught()
    if how == "ran":
        limit(found, now, "interactive")
    else:
        found.waits("interactive", now=now)
    assert limit(found, now + concurrency.LATELY_S - 0.1, "batch") == AT_40_MS
    assert limit(found, now + concurrency.LATELY_S + 0.1, "batch") == AT_80_MS


def test_an_objective_that_changes_counts_at_once() -> None:
    found, now = taught()
    assert limit(found, now, "interactive") == AT_40_MS
    found.objectives = Objectives({"interactive": 0.080})
    assert limit(found, now, "interactive") == AT_80_MS
    found.objectives = Objectives()
    assert limit(found, now, "interactive") == SLOTS


def test_an_objective_that_no_batch_meets_leaves_one_at_a_time() -> None:
    found, now = taught(Objectives({"interactive": 0.010}))
    assert rooms(found, [], now)["interactive"] == 1
    assert "interactive" not in rooms(found, ["interactive"], now)


def test_a_p95_is_told_while_it_is_of_now() -> None:
    found, now = taught()
    assert found.p95_s(now=now) == pytest.approx(0.020 + 0.001 * 48)
    assert found.p95_s(now=now + concurrency.SHOWN_S + 1) is None
    assert Concurrency().p95_s(now=0) is None
    assert found.tokens_per_s(20) == pytest.approx(20 / 0.040, rel=0.02)
    assert Concurrency().tokens_per_s(20) is None


@given(
    running=st.lists(st.sampled_from(CLASSES), max_size=70),
    wanted=st.dictionaries(st.sampled_from(CLASSES), st.floats(0.001, 1)),
    slots=st.integers(1, 80),
)
def test_whoever_joins_none_is_beyond_the_limit_of_its_company(
    running: list[PriorityClass], wanted: dict[PriorityClass, float], slots: int
) -> None:
    found, now = TAUGHT
    found.objectives = Objectives(wanted)
    found._seen.clear()
    joining = rooms(found, running, now, slots=slots)
    for each, room in joining.items():
        found._seen.clear()
        together = [*running, *[each] * room]
        assert found.limit(together, slots=slots, now=now) == len(together)
    if not running:
        assert set(joining) == set(CLASSES)


TAUGHT = taught()
