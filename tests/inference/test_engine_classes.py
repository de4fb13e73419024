"""Who has an engine's slots, as pure policy: for any requests, and over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.classes import PROMOTION_STEPS, Claimant, Debts, Seats, State, seats

BATCH, STANDARD, INTERACTIVE = 2, 1, 0


@st.composite
def situations(draw: st.DrawFn) -> tuple[int, list[Claimant], list[int]]:
    """Slots, requests of which no more are active than there are slots, and ranks that are due."""
    slots = draw(st.integers(1, 6))
    states: list[State] = draw(
        st.lists(st.sampled_from(("active", "parked", "waiting")), max_size=14)
    )
    claimants: list[Claimant] = []
    active = 0
    for n, wished in enumerate(states):
        state: State = "waiting" if wished == "active" and active == slots else wished
        active += state == "active"
        promoted = state == "active" and draw(st.booleans())
        arrival = draw(st.integers(0, 5))
        claimants.append(Claimant(f"r{n}", draw(st.integers(0, 2)), arrival, state, promoted))
    return slots, claimants, draw(st.lists(st.integers(0, 2), unique=True))


def after(claimants: list[Claimant], change: Seats) -> list[Claimant]:
    """Everybody once the change is made."""
    states: dict[str, State] = dict.fromkeys(change.park, "parked")
    states |= dict.fromkeys((*change.resume, *change.begin), "active")
    return [
        replace(
            each,
            state=states.get(each.id, each.state),
            promoted=each.promoted or each.id in change.promote,
        )
        for each in claimants
    ]


@given(situations())
def test_slots_are_never_overrun_nor_left_empty(
    situation: tuple[int, list[Claimant], list[int]],
) -> None:
    slots, claimants, due = situation
    now = after(claimants, seats(slots, claimants, due))
    assert sum(each.state == "active" for each in now) == min(slots, len(claimants))


@given(situations())
def test_nobody_waits_for_a_lower_class_that_is_owed_nothing(
    situation: tuple[int, list[Claimant], list[int]],
) -> None:
    slots, claimants, due = situation
    now = after(claimants, seats(slots, claimants, due))
    without = [each.rank for each in now if each.state != "active"]
    with_slot = [each.rank for each in now if each.state == "active" and not each.promoted]
    if without and with_slot:
        assert max(with_slot) <= min(without)


@given(situations())
def test_a_slot_is_given_up_for_a_higher_class_alone_by_the_newest_of_the_lowest(
    situation: tuple[int, list[Claimant], list[int]],
) -> None:
    slots, claimants, due = situation
    change = seats(slots, claimants, due)
    known = {each.id: each for each in claimants}
    now = {each.id: each for each in after(claimants, change)}
    parked = [known[name] for name in change.park]
    took = [
        each
        for each in claimants
        if each.state != "active" and now[each.id].state == "active" and not now[each.id].promoted
    ]
    assert not any(each.promoted for each in parked)
    for victim in parked:
        assert any(each.rank < victim.rank for each in took)
        for other in claimants:
            keeps = other.state == "active" and now[other.id].state == "active"
            if keeps and not now[other.id].promoted:
                assert (other.rank, other.arrival) <= (victim.rank, victim.arrival)


@given(situations())
def test_who_is_promoted_takes_nobodys_slot(
    situation: tuple[int, list[Claimant], list[int]],
) -> None:
    slots, claimants, due = situation
    change = seats(slots, claimants, due)
    active = sum(each.state == "active" for each in claimants)
    known = {each.id: each for each in claimants}
    newly = [name for name in change.promote if known[name].state != "active"]
    assert active + len(newly) <= max(slots, active)
    assert {known[name].rank for name in change.promote} <= set(due)


def test_ten_of_a_class_against_four_of_a_higher_one() -> None:
    batch = [Claimant(f"b{n}", BATCH, n, "active") for n in range(4)]
    waiting = [Claimant(f"i{n}", INTERACTIVE, 10 + n, "waiting") for n in range(2)]
    assert seats(4, [*batch, *waiting]) == Seats(park=("b2", "b3"), begin=("i0", "i1"))
    assert seats(4, [*batch, Claimant("b9", BATCH, 9, "waiting")]) == Seats()


def test_of_two_classes_that_are_owed_one_takes_the_free_slot() -> None:
    higher = [Claimant(f"i{n}", INTERACTIVE, n, "active") for n in range(3)]
    lower = [Claimant("s", STANDARD, 5, "parked"), Claimant("b", BATCH, 4, "parked")]
    change = seats(4, [*higher, *lower], due=[STANDARD, BATCH])
    assert change == Seats(resume=("s",), promote=("s",))


class Endless:
    """Slots under traffic without end: whenever one of a higher class ends, another waits."""

    def __init__(self, slots: int, floor: float, *, answer: int, lower: int) -> None:
        self.slots, self.answer, self.debts = slots, answer, Debts(floor)
        self.made: Counter[int] = Counter()
        self.tokens: Counter[str] = Counter()
        self.claimants = [Claimant(f"b{n}", BATCH, n, "waiting") for n in range(lower)]
        self.arrivals = 0

    def step(self) -> None:
        higher = sum(each.rank == INTERACTIVE for each in self.claimants)
        for _ in range(self.slots + 2 - higher):
            self.arrivals += 1
            self.claimants.append(
                Claimant(f"i{self.arrivals}", INTERACTIVE, self.arrivals, "waiting")
            )
        promoted = Counter(each.rank for each in self.claimants if each.promoted)
        change = seats(self.slots, self.claimants, self.debts.due(promoted))
        now = after(self.claimants, change)
        served = Counter(each.rank for each in now if each.state == "active")
        self.made += served
        self.tokens.update(each.id for each in now if each.state == "active")
        waiting = {each.rank for each in now if each.state != "active"}
        self.debts.note(served, waiting, {each.rank for each in now})
        self.claimants = [
            replace(each, promoted=each.promoted and self.debts.owes(each.rank))
            for each in now
            if each.rank == BATCH or self.tokens[each.id] < self.answer
        ]


@pytest.mark.parametrize("slots", [1, 4, 16])
@pytest.mark.parametrize("floor", [0.02, 0.05, 0.25])
def test_a_lower_class_gets_its_floor_while_higher_traffic_never_ends(
    slots: int, floor: float
) -> None:
    traffic = Endless(slots, floor, answer=40, lower=20)
    for _ in range(3_000):
        traffic.step()
    owed = floor * traffic.made[INTERACTIVE]
    assert traffic.made[BATCH] == pytest.approx(owed, rel=0.05, abs=PROMOTION_STEPS)


def test_without_a_floor_it_is_strict() -> None:
    traffic = Endless(2, 0.0, answer=10, lower=5)
    for _ in range(2_000):
        traffic.step()
    assert traffic.made[BATCH] == 0


def test_what_is_owed_is_not_kept_by_who_no_longer_waits() -> None:
    debts = Debts(0.5)
    for _ in range(PROMOTION_STEPS):
        debts.note({INTERACTIVE: 2}, {BATCH}, {INTERACTIVE, BATCH})
    assert debts.due({}) == [BATCH]
    assert debts.due({BATCH: 1}) == []
    debts.note({INTERACTIVE: 2}, set(), {INTERACTIVE, BATCH})
    assert debts.owes(BATCH), "it has a slot, and has had nothing yet"
    debts.note({INTERACTIVE: 2}, set(), {INTERACTIVE})
    assert not debts.owes(BATCH)


def test_a_class_is_owed_by_all_above_it_and_not_by_those_below() -> None:
    debts = Debts(0.5)
    everybody = {INTERACTIVE, STANDARD, BATCH}
    debts.note({INTERACTIVE: 40, BATCH: 1000}, {STANDARD}, everybody)
    assert debts.owes(STANDARD)
    assert debts.due({}) == []
    debts.note({INTERACTIVE: 40}, {STANDARD}, everybody)
    assert debts.due({}) == [STANDARD]
