"""Replays a queue forward: in which order what waits will be taken, and after how long.

A forecast of what `lua/fair_share.lua` will do, from a snapshot; it decides nothing. A request is
charged all at once when it is taken, since its service is done before those behind it are.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from inference.queue_snapshot import Snapshot, Waiting
from tenants.priority import CLASSES, PriorityClass


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a prompt's and an answer's token; floor: what a class gets of the service above it."""

    input: float
    output: float
    floor: float


# Each draws the lengths of all answers anew: as many as make up so many requests, within bounds. In
# a long queue chance evens itself out.
REPLAYED, FEWEST_REPLAYS, MOST_REPLAYS = 4_000, 4, 16
# Fewer answers than these say nothing of how long answers are.
FEWEST = 3
LEVEL, STEP = 0.9, 0.05
# Further ahead nobody's coming is foreseen.
LONGEST_S = 600
# Nor further than this many times what serving all that waits would take alone.
HORIZON = 3


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds until it is taken: as likely more as less than p50_s, and less than p90_s in nine of
    ten cases.
    """

    p50_s: float
    p90_s: float
    priority_class: PriorityClass


@dataclass(slots=True)
class _Class:
    """lines: tenant to what it has waiting; heads: (counter, arrival, tenant), one for each line
    counters: of tenants without a line; level: the least counter taken last
    """

    restored: deque[Waiting] = field(default_factory=deque)
    lines: dict[str, deque[Waiting]] = field(default_factory=dict)
    heads: list[tuple[float, int, str]] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    level: float = 0.0
    owed: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.restored or self.heads)

    def head(self) -> Waiting:
        return self.restored[0] if self.restored else self.lines[self.heads[0][2]][0]

    def join(self, waiting: Waiting, *, lift: bool) -> None:
        """To the end of its tenant's line. lift: the counter is one of before it was idle."""
        tenant = waiting.tenant_id
        if waiting.goes_on:
            self.restored.append(waiting)
        elif tenant in self.lines:
            self.lines[tenant].append(waiting)
        else:
            self.lines[tenant] = deque([waiting])
            counter = self.counters.get(tenant, 0.0)
            if lift:
                counter = max(counter, self.heads[0][0] if self.heads else self.level)
            heapq.heappush(self.heads, (counter, waiting.arrived_us, tenant))

    def take(self, service: Callable[[Waiting], float]) -> tuple[Waiting, float]:
        """The head, gone, and its service."""
        if self.restored:
            taken = self.restored.popleft()
            return taken, service(taken)
        self.level, _, tenant = heapq.heappop(self.heads)
        line = self.lines[tenant]
        taken = line.popleft()
        done = service(taken)
        after = self.counters[tenant] = self.level + done / taken.weight
        if line:
            heapq.heappush(self.heads, (after, line[0].arrived_us, tenant))
        else:
            del self.lines[tenant]
        return taken, done


# What comes while it is waited for: (after so much service, request), the soonest first.
Coming = list[tuple[float, Waiting]]


def replay(
    snapshot: Snapshot,
    costs: Costs,
    output_tokens: Callable[[Waiting], float],
    coming: Sequence[tuple[float, Waiting]] = (),
) -> Iterator[tuple[Waiting, float, float]]:
    """What waits, in the order in which it will be taken, each with the service of those before and
    its own; what comes meanwhile is not told of.
    """
    classes = _classes(snapshot)
    before, left, next_one = 0.0, len(snapshot.waiting), 0

    def service(waiting: Waiting) -> float:
        prompt = 0 if waiting.goes_on else waiting.prompt_tokens
        return costs.input * prompt + costs.output * output_tokens(waiting)

    while left and (turn := _turn(classes, costs)) is not None:
        taken, done = classes[turn].take(service)
        if taken.generation_id:
            left -= 1
            yield taken, before, done
        before += done
        classes[turn].owed = max(0.0, classes[turn].owed - done)
        for lower in classes[turn + 1 :]:
            lower.owed += costs.floor * done if lower else 0.0
        while next_one < len(coming) and coming[next_one][0] <= before:
            arriving = coming[next_one][1]
            classes[CLASSES.index(arriving.priority_class)].join(arriving, lift=True)
            next_one += 1


def _classes(snapshot: Snapshot) -> list[_Class]:
    classes = {
        each: _Class(
            owed=snapshot.owed.get(each, 0.0), counters=dict(snapshot.counters.get(each, {}))
        )
        for each in CLASSES
    }
    for waiting in snapshot.waiting:
        classes[waiting.priority_class].join(waiting, lift=False)
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
    """What waits, in the order in which it will be taken if nobody else comes and answers are as
    long as they are on average, or may be where nothing is known of that.
    """
    outputs = snapshot.outputs
    mean = sum(outputs) / len(outputs) if outputs else math.inf
    return [each for each, *_ in replay(snapshot, costs, lambda one: min(mean, one.max_tokens))]


def waits(snapshot: Snapshot, costs: Costs, chance: random.Random) -> dict[str, Wait]:
    """By generation, how long each that waits still will; empty where nothing is known to tell it
    from: no answers lately, or no service.

    While what runs has about as much left to do as before, as much has been done as was taken; but
    for those that run beyond what may, nothing is taken.
    """
    if len(snapshot.outputs) < FEWEST or not (snapshot.service_rate and snapshot.waiting):
        return {}
    usual = _usual(snapshot, costs)
    snapshot = replace(snapshot, service_rate=_rate(snapshot, usual))
    first = snapshot.capacity.beyond * usual
    services: dict[str, list[float]] = {each.generation_id: [] for each in snapshot.waiting}

    def drawn(waiting: Waiting) -> float:
        return min(chance.choice(snapshot.outputs), waiting.max_tokens)

    wanted = REPLAYED // max(1, len(snapshot.waiting))
    for _ in range(max(FEWEST_REPLAYS, min(MOST_REPLAYS, wanted))):
        for waiting, before, own in replay(
            snapshot, costs, drawn, _coming(snapshot, costs, chance, after=first)
        ):
            services[waiting.generation_id].append(first + before + own)
    return {
        each.generation_id: _wait(each, sorted(services[each.generation_id]), snapshot)
        for each in snapshot.waiting
    }


def _usual(snapshot: Snapshot, costs: Costs) -> float:
    """The service of one that waits, on average."""
    answer = sum(snapshot.outputs) / len(snapshot.outputs)
    prompt = sum(each.prompt_tokens for each in snapshot.waiting) / len(snapshot.waiting)
    return costs.output * answer + costs.input * prompt


def _rate(snapshot: Snapshot, usual: float) -> float:
    """As lately, and no more than what may run makes."""
    makes = snapshot.capacity.tokens_per_s
    if makes is None:
        return snapshot.service_rate
    answer = sum(snapshot.outputs) / len(snapshot.outputs)
    return min(snapshot.service_rate, makes * usual / max(1.0, answer))


def _coming(snapshot: Snapshot, costs: Costs, chance: random.Random, *, after: float) -> Coming:
    """Who may come until all is served that waits: as often as lately, at random. A tenant with a
    line only comes behind itself, so others do not feel it until its line is served.

    after: the service before anything is taken
    """
    each = costs.output * sum(snapshot.outputs) / len(snapshot.outputs)
    waiting = sum(each + costs.input * one.prompt_tokens for one in snapshot.waiting)
    until_s = min(LONGEST_S, HORIZON * (after + waiting) / snapshot.service_rate)
    coming: Coming = []
    for demand in snapshot.demands:
        arriving = Waiting(
            generation_id="",
            tenant_id=demand.tenant_id,
            priority_class=demand.priority_class,
            prompt_tokens=demand.prompt_tokens,
            max_tokens=max(snapshot.outputs),
            weight=demand.weight,
            arrived_us=2**60,
            goes_on=False,
        )
        at_s = chance.expovariate(demand.per_s)
        while at_s < until_s:
            coming.append((at_s * snapshot.service_rate - after, arriving))
            at_s += chance.expovariate(demand.per_s)
    coming.sort(key=lambda each: each[0])
    return coming


def _wait(waiting: Waiting, services: list[float], snapshot: Snapshot) -> Wait:
    p50_s, p90_s = (_quantile(services, level) / snapshot.service_rate for level in (0.5, LEVEL))
    factor = math.exp(snapshot.corrections.get(waiting.priority_class, 0.0))
    return Wait(p50_s, max(p50_s, p90_s * factor), waiting.priority_class)


def _quantile(values: list[float], level: float) -> float:
    return values[min(len(values) - 1, int(level * len(values)))]


def correction(*, was_longer: bool) -> float:
    """What to add to the logarithm of the factor on p90, after a wait was longer than it, or not:
    over time nine of ten are shorter, whatever it is that a replay can't know. Adaptive conformal
    inference, Gibbs and Candès, NeurIPS 2021.
    """
    return STEP * (was_longer - (1 - LEVEL))
