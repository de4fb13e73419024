"""How much a host can take from its queue, and of which classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from django.conf import settings

from inference.engine.protocol import LOWEST_RANK, Engine
from tenants.priority import CLASSES, RANKS, PriorityClass


@dataclass(frozen=True, slots=True)
class Room:
    """For `count` requests at once, whichever of the classes they are.

    kept: the classes in which there is room only for tenants below their share of the slots
    """

    count: int
    classes: tuple[PriorityClass, ...]
    kept: tuple[PriorityClass, ...] = ()

    @property
    def is_for_all(self) -> bool:
        return len(self.classes) == len(CLASSES) and not self.kept

    @property
    def lowest(self) -> PriorityClass:
        return self.classes[-1]


class Runs(Protocol):
    def up_to(self, rank: int) -> int:
        """How many it has of this rank or above it."""
        ...

    def decoding_up_to(self, rank: int) -> int:
        """Of these, how many share the engine's steps or are about to."""
        ...

    def limits(self) -> dict[PriorityClass, int]:
        """By class, how many may share the engine's steps when one of it joins."""
        ...


def room(engine: Engine, runs: Runs) -> Room | None:
    """None if there is none for any class.

    Whoever is of a higher class takes a slot from a lower one in an engine that can do that, so
    what is below it takes no room from it. Elsewhere a class counts in the queue alone: taking a
    lower one out of an engine, to be prefilled again, would cost more than the wait for a slot.

    The last slots are kept for tenants below their share of them, so that one that floods lets
    others begin at once. Nobody passes another by that: if it is another's turn, they stay empty.
    """
    found: dict[PriorityClass, int] = {}
    kept: list[PriorityClass] = []
    most = int(settings.ENGINE_MAX_RUNNING)
    for each, limit in runs.limits().items():
        rank = RANKS[each] if engine.capabilities.yields else LOWEST_RANK
        free = min(limit - runs.decoding_up_to(rank), most - runs.up_to(rank))
        for_all = free - int(settings.KEPT_SLOT_SHARE * min(limit, most))
        count = min(_startable(engine, rank), for_all if for_all > 0 else free)
        if count > 0:
            found[each] = count
            kept += () if for_all > 0 else (each,)
    # However they come mixed, none is one too many for the tightest of these.
    return Room(min(found.values()), tuple(found), tuple(kept)) if found else None


def _startable(engine: Engine, lowest_rank: int) -> int:
    """What the engine prefills in its next step waits for nobody in it, however many they are;
    beyond that the queue is the fairer place to wait.
    """
    load, depth = engine.load(lowest_rank=lowest_rank), int(settings.ENGINE_QUEUE_DEPTH)
    fits_a_step = load.waiting_tokens < settings.ENGINE_STEP_TOKENS
    return depth if fits_a_step else depth - load.waiting
