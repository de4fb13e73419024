"""How many of what a host runs, counted anew whenever somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from inference.engine.protocol import Load
from inference.host.latency import Latency
from inference.host.run import Run
from inference.host.yielding import Yielding
from tenants.priority import PriorityClass


class Census:
    def __init__(
        self, runs: Callable[[], Sequence[Run]], latency: Latency, yielding: Yielding
    ) -> None:
        self._runs = runs
        self._latency = latency
        self._yielding = yielding

    # -- What there is room for

    def up_to(self, rank: int) -> int:
        """How many are of this rank or above it."""
        return sum(run.rank <= rank for run in self._runs())

    def decoding_up_to(self, rank: int) -> int:
        """Of these, how many share the engine's steps or are about to."""
        aside = self._yielding.now
        return sum(
            run.rank <= rank and run.shares_steps and run.id not in aside for run in self._runs()
        )

    def limits(self) -> dict[PriorityClass, int]:
        """By class, how many may share the engine's steps when one of it joins."""
        return self._latency.limits()

    def at_their_share(self) -> set[str]:
        """The tenants that have as many slots as if one more shared them with all that run here."""
        running = Counter(run.request.tenant_id for run in self._runs())
        share = self._latency.limit() / (len(running) + 1)
        return {tenant for tenant, count in running.items() if count >= share}

    # -- What is told of it

    def told(self, load: Load) -> dict[str, int]:
        """What the replica's record says of it. load: the engine's own account"""
        held_in_engine = sum(run.is_held_in_engine for run in self._runs())
        return {
            "running": max(0, load.running - held_in_engine - self.yielded),
            "held": self.held + self.yielded,
            "waiting": load.waiting,
            "batch_tokens": sum(run.prompt_tokens + run.tail.seq for run in self._runs()),
            "longest_prompt": max((run.prompt_tokens for run in self._runs()), default=0),
        }

    @property
    def in_engine(self) -> int:
        """How many wait for the engine's next token."""
        return sum(run.waits_for_engine for run in self._runs())

    @property
    def held(self) -> int:
        """How many wait for their reader."""
        return sum(run.flow.held for run in self._runs())

    @property
    def yielded(self) -> int:
        """How many have given their slots to higher classes, as of the last look."""
        return sum(run.id in self._yielding.now for run in self._runs())
