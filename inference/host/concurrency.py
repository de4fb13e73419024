"""How many requests may run on a replica: its slots, and no more than keep the time between tokens
within the objective of every class among them.

Pure policy with the caller's clock. The tightest objective counts of what runs, of what asks to
join, and of what did either lately: so a class that comes and goes finds room, and one that is by
itself may go as far as its own objective allows.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference.host.step_time import Span, Spans, StepTime
from inference.objectives import Objectives
from tenants.priority import CLASSES, PriorityClass

LATELY_S = 30.0
# A p95 that is older says nothing of now.
SHOWN_S = 10.0


class Concurrency:
    def __init__(self) -> None:
        self.objectives = Objectives()
        self._spans = Spans()
        self._steps = StepTime()
        # Class to when one was last there, in seconds of the caller's clock.
        self._seen: dict[PriorityClass, float] = {}
        self._span: tuple[float, Span] | None = None
        self._limit: int | None = None

    def delivered(self, gap_s: float, *, now: float) -> None:
        """A token came, `gap_s` after the one before it of the same answer."""
        if (span := self._spans.add(gap_s, now=now)) is not None:
            full = self._limit is not None and span.running > self._limit - 1
            self._steps.learn(span, full=full)
            self._span = now, span

    def waits(self, priority_class: PriorityClass, *, now: float) -> None:
        """One of that class is next, and there was no room for it."""
        self._seen[priority_class] = now

    def limit(self, running: Iterable[PriorityClass], *, slots: int, now: float) -> int:
        """How many may run beside each other now, 1 to `slots`. running: the class of each."""
        self._limit = self._limit_of(self._present(running, now), slots)
        return self._limit

    def limits(
        self, running: Iterable[PriorityClass], *, slots: int, now: float
    ) -> dict[PriorityClass, int]:
        """By class, how many may run beside each other once one of it has joined."""
        if not self.objectives:
            return dict.fromkeys(CLASSES, slots)
        present = self._present(running, now)
        self._limit = self._limit_of(present, slots)
        return {
            each: self._limit if each in present else self._limit_of(present | {each}, slots)
            for each in CLASSES
        }

    def objective_s(self, running: Iterable[PriorityClass], *, now: float) -> float | None:
        return self.objectives.tightest(self._present(running, now))

    def p95_s(self, *, now: float) -> float | None:
        """Between tokens, lately; None while none come."""
        if self._span is None or now - self._span[0] > SHOWN_S:
            return None
        return self._span[1].p95_s

    def tokens_per_s(self, running: int) -> float | None:
        """What so many make together, as far as is known."""
        return self._steps.tokens_per_s(running) if self._steps.is_known else None

    def _present(self, running: Iterable[PriorityClass], now: float) -> set[PriorityClass]:
        for each in running:
            self._seen[each] = now
        return {each for each, seen in self._seen.items() if now - seen <= LATELY_S}

    def _limit_of(self, classes: Iterable[PriorityClass], slots: int) -> int:
        objective_s = self.objectives.tightest(classes)
        return slots if objective_s is None else self._steps.most(objective_s, slots=slots)
