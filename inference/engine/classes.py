"""Which requests have an engine's slots when there are not enough: by class, the highest first, and
a floor for the lower ones. Pure policy, for engines that can take a slot away.

A class is known here by its rank, 0 being the highest. Whoever has a slot keeps it against its own
class and lower ones. For a request of a higher class the newest of the lowest class gives up its
slot; it is parked, not ended, and goes on when a slot is free and nobody higher wants it.

So that it isn't parked for as long as there is higher traffic, each class that waits is owed a
share, the floor, of the steps that the classes above it get. Once that comes to `PROMOTION_STEPS`,
the next free slot is its, and stays its until it has had what it was owed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# A step is one request's part of one step of the engine: a token, or a piece of a prompt.
# Enough of them for a slot's change of hands to be worth it.
PROMOTION_STEPS = 32

State = Literal["active", "parked", "waiting"]
_ORDER: dict[State, int] = {"active": 0, "parked": 1, "waiting": 2}


@dataclass(frozen=True, slots=True)
class Claimant:
    """A request that could be in the next step.

    rank: of its class; arrival: orders those of a class, the earlier first
    state: has a slot, has given it up, or has had none yet
    promoted: goes before all classes, since its own is owed service
    """

    id: str
    rank: int
    arrival: float
    state: State
    promoted: bool = False


@dataclass(frozen=True, slots=True)
class Seats:
    """What is to change, by ids: who gives its slot up, who of the parked goes on, who of the
    waiting begins, in this order, and who is promoted.
    """

    park: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    begin: tuple[str, ...] = ()
    promote: tuple[str, ...] = ()


def seats(slots: int, claimants: Sequence[Claimant], due: Iterable[int] = ()) -> Seats:
    """slots: how many requests a step may have; due: ranks that are owed another promotion"""
    promote = set(_promotions(slots, claimants, due))
    ordered = sorted(
        claimants,
        key=lambda each: (
            -1 if each.promoted or each.id in promote else each.rank,
            _ORDER[each.state],
            each.arrival,
        ),
    )
    seated, rest = ordered[:slots], ordered[slots:]
    return Seats(
        park=tuple(each.id for each in rest if each.state == "active"),
        resume=tuple(each.id for each in seated if each.state == "parked"),
        begin=tuple(each.id for each in seated if each.state == "waiting"),
        promote=tuple(each.id for each in ordered if each.id in promote),
    )


def _promotions(slots: int, claimants: Sequence[Claimant], due: Iterable[int]) -> Iterable[str]:
    """Of each due rank its first; one without a slot takes a free one, never anybody's."""
    taken = sum(each.state == "active" or each.promoted for each in claimants)
    for rank in due:
        of_rank = [each for each in claimants if each.rank == rank and not each.promoted]
        if not of_rank:
            continue
        first = min(of_rank, key=lambda each: (_ORDER[each.state], each.arrival))
        if first.state != "active":
            if taken >= slots:
                continue
            taken += 1
        yield first.id


class Debts:
    """What classes are owed, by rank, in steps."""

    def __init__(self, floor: float) -> None:
        """floor: of the steps of the classes above, what a class gets at least while it waits; 0 to
        be strict.
        """
        self._floor = floor
        self._owed: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._owed)

    def note(
        self, served: Mapping[int, int], waiting: Collection[int], present: Collection[int]
    ) -> None:
        """After a step. served: how many of each rank were in it; waiting: ranks of which somebody
        could have been and was not; present: those that have anybody at all.
        """
        self._owed = {rank: owed for rank, owed in self._owed.items() if rank in present}
        for rank in {*self._owed, *waiting}:
            above = sum(count for other, count in served.items() if other < rank)
            added = self._floor * above if rank in waiting else 0.0
            self._owed[rank] = max(0.0, self._owed.get(rank, 0.0) + added - served.get(rank, 0))

    def due(self, promoted: Mapping[int, int]) -> list[int]:
        """Ranks that are owed more than those promoted already will get, the highest first.
        promoted: how many of each are.
        """
        return [
            rank
            for rank, owed in sorted(self._owed.items())
            if owed >= PROMOTION_STEPS * (1 + promoted.get(rank, 0))
        ]

    def owes(self, rank: int) -> bool:
        return self._owed.get(rank, 0.0) > 0
