"""How much a host can take from its queue, and of which classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from django.conf import settings

from inference.engine.protocol import Engine
from tenants.priority import CLASSES, RANKS, PriorityClass


@dataclass(frozen=True, slots=True)
class Room:
    """For `count` requests at once, of class `lowest` or those above."""

    count: int
    lowest: PriorityClass

    @property
    def is_for_all(self) -> bool:
        return self.lowest == CLASSES[-1]


class Runs(Protocol):
    def up_to(self, rank: int) -> int:
        """How many it has of this rank or above it."""
        ...


def room(engine: Engine, runs: Runs) -> Room | None:
    """For as low a class as there is any for; None if there is none.

    Whoever is of a higher class takes a slot from a lower one in an engine that can do that, so
    what is below it takes no room from it. Elsewhere a class counts in the queue alone: taking a
    lower one out of an engine, to be prefilled again, would cost more than the wait for a slot.
    """
    for lowest in reversed(CLASSES) if engine.capabilities.yields else CLASSES[-1:]:
        if (count := _room_for(lowest, engine, runs)) > 0:
            return Room(count, lowest)
    return None


def _room_for(lowest: PriorityClass, engine: Engine, runs: Runs) -> int:
    """What the engine prefills in its next step waits for nobody in it, however many they are;
    beyond that the queue is the fairer place to wait.
    """
    rank, depth = RANKS[lowest], int(settings.ENGINE_QUEUE_DEPTH)
    load = engine.load(lowest_rank=rank)
    fits_a_step = load.waiting_tokens < settings.ENGINE_STEP_TOKENS
    most = depth if fits_a_step else depth - load.waiting
    return min(most, settings.ENGINE_MAX_RUNNING - runs.up_to(rank))
