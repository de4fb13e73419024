"""One process takes another's place: the policy alone, on a clock of the test's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from config.supervisor.rolling import Move, New, Phase, Turn
from tests.config.test_restart_policy import HandClock

LAST = (Move.DONE, Move.DISCARD, Move.GIVE_UP)


def turn(clock: HandClock | None = None, *, stop_first: bool = False) -> Turn:
    return Turn(clock or HandClock(), ready_within_s=60, stop_first=stop_first)


def test_the_old_one_is_told_to_go_when_the_new_one_serves() -> None:
    mine = turn()
    assert mine.next(old_is_there=True, new=New.ABSENT) is Move.START
    assert mine.next(old_is_there=True, new=New.STARTING) is Move.WAIT
    assert mine.next(old_is_there=True, new=New.READY) is Move.DRAIN
    assert mine.next(old_is_there=True, new=New.READY) is Move.WAIT
    # What the new one does from here on is its own life.
    assert mine.next(old_is_there=True, new=New.GONE) is Move.WAIT
    assert mine.next(old_is_there=False, new=New.READY) is Move.DONE
    assert mine.phase is Phase.OVER


def test_a_new_one_that_ends_is_discarded_and_the_old_one_stays() -> None:
    mine = turn()
    mine.next(old_is_there=True, new=New.ABSENT)
    assert mine.next(old_is_there=True, new=New.GONE) is Move.DISCARD
    assert mine.phase is Phase.FAILED


def test_a_new_one_has_only_so_long() -> None:
    clock = HandClock()
    mine = turn(clock)
    mine.next(old_is_there=True, new=New.ABSENT)
    clock.seconds += 59.9
    assert mine.next(old_is_there=True, new=New.STARTING) is Move.WAIT
    clock.seconds += 0.1
    assert mine.next(old_is_there=True, new=New.STARTING) is Move.DISCARD


def test_with_no_room_for_two_the_old_one_goes_first() -> None:
    clock = HandClock()
    mine = turn(clock, stop_first=True)
    assert mine.next(old_is_there=True, new=New.ABSENT) is Move.DRAIN
    clock.seconds += 1000  # as long as its answers take
    assert mine.next(old_is_there=True, new=New.ABSENT) is Move.WAIT
    assert mine.next(old_is_there=False, new=New.ABSENT) is Move.START
    clock.seconds += 59
    assert mine.next(old_is_there=False, new=New.STARTING) is Move.WAIT
    assert mine.next(old_is_there=False, new=New.READY) is Move.DONE


def test_with_no_old_one_to_stay_the_new_one_is_kept_at_it() -> None:
    mine = turn()
    assert mine.next(old_is_there=False, new=New.ABSENT) is Move.START
    assert mine.next(old_is_there=False, new=New.GONE) is Move.GIVE_UP


@given(
    stop_first=st.booleans(),
    seen=st.lists(st.tuples(st.booleans(), st.sampled_from(New), st.floats(0, 40)), max_size=40),
)
def test_whatever_happens_somebody_serves(
    stop_first: bool, seen: list[tuple[bool, New, float]]
) -> None:
    """Each move comes once; the old one is never told to go before the new one serves, unless that
    was asked for, nor ever when the new one is discarded.
    """
    clock = HandClock()
    mine = turn(clock, stop_first=stop_first)
    moves: list[Move] = []
    old_is_there = True
    for old_stays, new, seconds in seen:
        clock.seconds += seconds
        old_is_there &= old_stays  # who is gone for good stays gone
        move = mine.next(old_is_there=old_is_there, new=new)
        if move is Move.WAIT:
            continue
        moves.append(move)
        if move is Move.DRAIN and not stop_first:
            assert new is New.READY
        if move is Move.DISCARD:
            assert old_is_there
        if move in LAST:
            break
    assert len(set(moves)) == len(moves)
    if Move.DISCARD in moves and not stop_first:
        assert Move.DRAIN not in moves
    if moves and moves[-1] in LAST:
        assert Move.START in moves
        assert mine.next(old_is_there=True, new=New.READY) is Move.WAIT
