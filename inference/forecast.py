"""Replays a queue forward: in which order what waits will be taken, and after how much service.

A forecast of what `lua/fair_share.lua` will do, from a snapshot; it decides nothing. A request is
charged all at once when it is taken, since its service is done before those behind it are.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from inference.queue_snapshot import Snapshot, Waiting
from tenants.priority import CLASSES


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a prompt's and an answer's token; floor: what a class gets of the service above it."""

    input: float
    output: float
    floor: float


@dataclass(slots=True)
class _Class:
    """lines: tenant to what it has waiting; heads: (counter, arrival, tenant), one for each line"""

    restored: deque[Waiting] = field(default_factory=deque)
    lines: dict[str, deque[Waiting]] = field(default_factory=dict)
    heads: list[tuple[float, int, str]] = field(default_factory=list)
    owed: float = 0.0

    def begin(self, counters: Mapping[str, float]) -> None:
        self.heads = [
            (counters.get(tenant, 0.0), line[0].arrived_us, tenant)
            for tenant, line in self.lines.items()
        ]
        heapq.heapify(self.heads)

    def __bool__(self) -> bool:
        return bool(self.restored or self.heads)

    def head(self) -> Waiting:
        return self.restored[0] if self.restored else self.lines[self.heads[0][2]][0]

    def take(self, service: Callable[[Waiting], float]) -> tuple[Waiting, float]:
        """The head, gone, and its service."""
        if self.restored:
            taken = self.restored.popleft()
            return taken, service(taken)
        counter, _, tenant = heapq.heappop(self.heads)
        line = self.lines[tenant]
        taken = line.popleft()
        done = service(taken)
        if line:
            after = counter + done / taken.weight
            heapq.heappush(self.heads, (after, line[0].arrived_us, tenant))
        return taken, done


def replay(
    snapshot: Snapshot, costs: Costs, output_tokens: Callable[[Waiting], float]
) -> Iterator[tuple[Waiting, float]]:
    """What waits, in the order in which it will be taken, each with the service of those before."""
    classes = _classes(snapshot)
    before = 0.0

    def service(waiting: Waiting) -> float:
        prompt = 0 if waiting.goes_on else waiting.prompt_tokens
        return costs.input * prompt + costs.output * output_tokens(waiting)

    while (turn := _turn(classes, costs)) is not None:
        taken, done = classes[turn].take(service)
        yield taken, before
        before += done
        classes[turn].owed = max(0.0, classes[turn].owed - done)
        for lower in classes[turn + 1 :]:
            lower.owed += costs.floor * done if lower else 0.0


def _classes(snapshot: Snapshot) -> list[_Class]:
    classes = {each: _Class(owed=snapshot.owed.get(each, 0.0)) for each in CLASSES}
    for waiting in snapshot.waiting:
        mine = classes[waiting.priority_class]
        if waiting.goes_on:
            mine.restored.append(waiting)
        else:
            mine.lines.setdefault(waiting.tenant_id, deque()).append(waiting)
    for name, each in classes.items():
        each.begin(snapshot.counters.get(name, {}))
    return list(classes.values())


def _turn(classes: list[_Class], costs: Costs) -> int | None:
    highest = None
    for number in reversed(range(len(classes))):
        each = classes[number]
        if each:
            if 0 < each.owed >= costs.input * each.head().prompt_tokens:
                return number
            highest = number
    return highest


def order(snapshot: Snapshot, costs: Costs) -> list[Waiting]:
    """What waits, in the order in which it will be taken if answers are as long as they may be."""
    return [each for each, _ in replay(snapshot, costs, lambda waiting: waiting.max_tokens)]
