"""One process takes the place of another: what to do when, without processes and with an injected
clock.

    beginning -> starting -> leaving -> over      the new one serves before the old one leaves
                    |
                    +-> failed                    it doesn't get ready: the old one stays
    beginning -> making room -> starting -> over  no room for two: the old one goes first
"""

from __future__ import annotations

from enum import StrEnum

from kernel.clock import Clock


class New(StrEnum):
    """What is seen of the new process. gone: it has ended at least once."""

    ABSENT = "absent"
    STARTING = "starting"
    READY = "ready"
    GONE = "gone"


class Move(StrEnum):
    """start: the new one; drain: the old one; discard: the new one, for the old one stays; give up:
    the new one is left to be started again and again, for there is no other.
    """

    WAIT = "wait"
    START = "start"
    DRAIN = "drain"
    DISCARD = "discard"
    GIVE_UP = "give up"
    DONE = "done"


class Phase(StrEnum):
    BEGINNING = "beginning"
    MAKING_ROOM = "making room"
    STARTING = "starting"
    LEAVING = "leaving"
    OVER = "over"
    FAILED = "failed"


class Turn:
    """One place's turn. Ask for the next move until it is `done`, `discard` or `give up`."""

    def __init__(self, clock: Clock, *, ready_within_s: float, stop_first: bool) -> None:
        self._clock = clock
        self._ready_within_s = ready_within_s
        self._stop_first = stop_first
        self._deadline = 0.0
        self.phase = Phase.BEGINNING

    def next(self, *, old_is_there: bool, new: New) -> Move:
        """Every move but `wait` is asked for once, in this order of events."""
        if self.phase is Phase.BEGINNING and self._stop_first and old_is_there:
            return self._go(Phase.MAKING_ROOM, Move.DRAIN)
        if self.phase is Phase.BEGINNING:
            return self._start()
        if self.phase is Phase.MAKING_ROOM and not old_is_there:
            return self._start()
        if self.phase is Phase.STARTING:
            return self._while_starting(old_is_there=old_is_there, new=new)
        if self.phase is Phase.LEAVING and not old_is_there:
            return self._go(Phase.OVER, Move.DONE)
        return Move.WAIT

    def _start(self) -> Move:
        self._deadline = self._clock.monotonic() + self._ready_within_s
        return self._go(Phase.STARTING, Move.START)

    def _while_starting(self, *, old_is_there: bool, new: New) -> Move:
        if new is New.READY:
            if old_is_there:
                return self._go(Phase.LEAVING, Move.DRAIN)
            return self._go(Phase.OVER, Move.DONE)
        if new is New.GONE or self._clock.monotonic() >= self._deadline:
            return self._go(Phase.FAILED, Move.DISCARD if old_is_there else Move.GIVE_UP)
        return Move.WAIT

    def _go(self, phase: Phase, move: Move) -> Move:
        self.phase = phase
        return move
