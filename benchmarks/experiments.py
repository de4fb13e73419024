"""VTC's experiments (Sheng et al., OSDI 2024, and its artifact) on the production queue."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.chart import Curve
from benchmarks.measures import gaps, mean_ttft, rate
from benchmarks.simulation import Served, Simulation
from benchmarks.workloads import Arrival, evenly, on_and_off, people, poisson
from kernel.redis import Client

A, B, C = "ten_a", "ten_b", "ten_c"
TENANTS, REQUESTS = 27, 1500
# Theorem: 2 max(w_p L_in, w_q M), two tenants that both wait, M what the batch holds.
BOUND = Curve("bound", [(0, 40_000), (600, 40_000)], dashed=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; published: by VTC's artifact, if it says"""

    experiment: str
    figure: str
    measured: float
    published: float | None

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.measured / self.published - 1


@dataclass(slots=True)
class Results:
    """estimates: a table of their own"""

    rows: list[Row] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    estimates: str = ""


Experiment = Callable[[Client, Results], Awaitable[None]]


async def fair(redis: Client, arrivals: Sequence[Arrival], *, lift: bool = True) -> list[Served]:
    return await Simulation(redis, lift=lift).run(arrivals)


async def first_come(redis: Client, arrivals: Sequence[Arrival]) -> list[Served]:
    return await Simulation(redis, one_line=True).run(arrivals)


def _overloading(until_s: float) -> list[Arrival]:
    return [
        *evenly(A, 1.5, until_s=until_s, shift=0.4),
        *evenly(B, 3, until_s=until_s, shift=0.9),
    ]


async def overload(redis: Client, results: Results) -> None:
    name = "overload, 1.5 and 3 requests/s"
    for how, run, published in (
        ("VTC", fair, (668, 672, 7_700)),
        ("FCFS", first_come, (436, 872, 249_000)),
    ):
        served = await run(redis, _overloading(360))
        for tenant, rated in zip((A, B), published, strict=False):
            figure = f"{how}: service/s, {tenant[-1]}"
            results.rows.append(Row(name, figure, rate(served, tenant, 0, 360), rated))
        longer = await run(redis, _overloading(600))
        apart = gaps(longer, A, B, 600)
        widest = max(apart[: 12 if how == "VTC" else None])
        until = 360 if how == "VTC" else 600
        results.rows.append(Row(name, f"{how}: max dW in {until} s", widest, published[2]))
        points = [(30.0 * (number + 1), gap) for number, gap in enumerate(apart)]
        results.curves.append(Curve(how, [(0.0, 0.0), *points]))


async def proportional(redis: Client, results: Results) -> None:
    rates = {A: 0.25, B: 0.5, C: 1.5}
    arrivals = [
        each for tenant, per_s in rates.items() for each in evenly(tenant, per_s, until_s=600)
    ]
    name = "proportional, 0.25, 0.5 and 1.5 requests/s"
    for how, run, published in (
        ("VTC", fair, (4.8, 4.9, 124)),
        ("FCFS", first_come, (97, 97, 97)),
    ):
        served = await run(redis, arrivals)
        for tenant, told in zip(rates, published, strict=True):
            figure = f"{how}: mean TTFT (s), {tenant[-1]}"
            results.rows.append(Row(name, figure, mean_ttft(served, tenant), told))


async def on_off(redis: Client, results: Results) -> None:
    arrivals = [
        *on_and_off(evenly(A, 2, until_s=600), phase_s=60),
        *evenly(B, 3, until_s=600),
    ]
    name = "a on and off by the minute, 2 and 3 requests/s"
    for how, run, published in (("VTC", fair, (75.4, 509.5)), ("FCFS", first_come, (374, 414))):
        served = await run(redis, arrivals)
        for tenant, told in zip((A, B), published, strict=True):
            figure = f"{how}: mean TTFT (s), {tenant[-1]}"
            results.rows.append(Row(name, figure, mean_ttft(served, tenant), told))


async def short_and_long(redis: Client, results: Results) -> None:
    chance = random.Random(1)  # noqa: S311 - a workload, not a secret
    arrivals = [
        *poisson(A, 8, until_s=600, tokens=64, chance=chance),
        *poisson(B, 1.5, until_s=600, tokens=256, chance=chance),
    ]
    name = "Poisson, 8 of 64/64 and 1.5 of 256/256 a second"
    for how, run, published in (("VTC", fair, (1032, 1003)), ("FCFS", first_come, (1302, 928))):
        served = await run(redis, arrivals)
        for tenant, told in zip((A, B), published, strict=True):
            figure = f"{how}: service/s, {tenant[-1]}"
            results.rows.append(Row(name, figure, rate(served, tenant, 0, 600), told))


async def shift(redis: Client, results: Results) -> None:
    arrivals = [
        *on_and_off(evenly(A, 0.5, until_s=300), phase_s=60),
        *evenly(B, 2, until_s=300),
        *evenly(A, 1, since_s=300, until_s=600),
        *evenly(B, 1, since_s=300, until_s=600),
        *evenly(A, 0.5, since_s=600, until_s=900),
        *evenly(B, 1.5, since_s=600, until_s=900),
    ]
    name = "shifting load, three times 300 s, the middle at 1 and 1 requests/s"
    for lift, how, published in ((True, "VTC", (666, 692)), (False, "no lift", (752, 607))):
        served = await fair(redis, arrivals, lift=lift)
        for tenant, told in zip((A, B), published, strict=True):
            figure = f"{how}: service/s in the middle, {tenant[-1]}"
            results.rows.append(Row(name, figure, rate(served, tenant, 300, 600), told))


async def many(redis: Client, results: Results) -> None:
    chance = random.Random(2)  # noqa: S311 - a workload, not a secret
    arrivals = people(TENANTS, REQUESTS, until_s=600, chance=chance)
    asked: Counter[str] = Counter()
    for each in arrivals:
        asked[each.tenant] += each.prompt_tokens + 2 * each.output_tokens
    share = asked.total() / len(asked)
    light = [tenant for tenant, service in asked.items() if service <= share]
    name = f"{len(asked)} tenants, {REQUESTS} requests in 10 minutes"
    for how, run, published in (("VTC", fair, 2.9), ("FCFS", first_come, 55.5)):
        served = await run(redis, arrivals)
        figure = f"{how}: mean TTFT (s) of the {len(light)} that ask for less than a share"
        results.rows.append(Row(name, figure, mean_ttft(served, *light), published))


EXPERIMENTS: tuple[Experiment, ...] = (
    overload,
    proportional,
    on_off,
    short_and_long,
    shift,
    many,
)
