"""How true the waits are that people are told, simulated with the production forecast."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.simulation import RELEASE, Served, Simulation
from benchmarks.workloads import people
from inference import forecast
from inference.forecast import Wait
from inference.services import estimates
from kernel.redis import Client

REQUESTS, UNTIL_S = 3_000, 1_200
# Before that nothing has come true yet that estimates could be corrected by.
SINCE_S = 300
FORECAST_S = 2


@dataclass(slots=True)
class Teller:
    """Tells each that waits how long, once, as a reader is told, and sees what comes of it."""

    forecasts: estimates.Forecasts = field(default_factory=estimates.Forecasts)
    told: dict[str, tuple[Wait, float]] = field(default_factory=dict)
    open: dict[str, Served] = field(default_factory=dict)
    due_s: float = 0
    seen: int = 0
    ended: int = 0

    async def watch(self, simulation: Simulation) -> None:
        while (newest := f"gen_{self.seen:06}") in simulation.served:
            self.open[newest] = simulation.served[newest]
            self.seen += 1
        self._see(simulation)
        lengths = [each.made for each in simulation.ended[self.ended :]]
        self.ended = len(simulation.ended)
        await estimates.note_outputs(simulation.redis, RELEASE, lengths)
        if simulation.now_s >= self.due_s and any(each not in self.told for each in self.open):
            self.due_s = simulation.now_s + FORECAST_S
            now_us = simulation.now_us
            made = await self.forecasts.make(simulation.redis, RELEASE, now_us=now_us)
            for generation_id in self.open:
                if generation_id not in self.told and generation_id in made.waits:
                    self.told[generation_id] = made.waits[generation_id], simulation.now_s

    def _see(self, simulation: Simulation) -> None:
        for generation_id, served in list(self.open.items()):
            if served.taken_s >= 0:
                del self.open[generation_id]
                if generation_id in self.told:
                    wait, at_s = self.told[generation_id]
                    self.forecasts.came(RELEASE, "simulated", wait, served.taken_s - at_s)


async def table(redis: Client) -> str:
    """A line for each number of tenants, with corrections and without."""
    lines = [
        "| tenants | corrected by what came | waits told | within p90 | within p50 "
        "| p50 within max(5 s, 25 %) | median wait | median error of p50 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for tenants in (4, 27):
        for step in (forecast.STEP, 0.0):
            lines.append(await _line(redis, tenants, step))
    return "\n".join(lines)


async def _line(redis: Client, tenants: int, step: float) -> str:
    before, forecast.STEP = forecast.STEP, step
    try:
        chance = random.Random(3)  # noqa: S311 - a workload, not a secret
        teller = Teller()
        simulation = Simulation(redis, observer=teller.watch)
        served = await simulation.run(people(tenants, REQUESTS, until_s=UNTIL_S, chance=chance))
    finally:
        forecast.STEP = before
    waits = [
        (*teller.told[each.request.generation_id], each)
        for each in served
        if each.request.generation_id in teller.told and each.arrival.at_s >= SINCE_S
    ]
    return _figures(tenants, step > 0, [(wait, each.taken_s - at) for wait, at, each in waits])


def _figures(tenants: int, corrected: bool, waits: Sequence[tuple[Wait, float]]) -> str:
    count = len(waits)
    within_90 = sum(took <= wait.p90_s for wait, took in waits) / count
    within_50 = sum(took <= wait.p50_s for wait, took in waits) / count
    close = sum(abs(took - wait.p50_s) <= max(5, 0.25 * took) for wait, took in waits) / count
    error = median(abs(took - wait.p50_s) for wait, took in waits)
    usual = median(took for _, took in waits)
    return (
        f"| {tenants} | {'yes' if corrected else 'no'} | {count} | {within_90:.0%} | "
        f"{within_50:.0%} | {close:.0%} | {usual:.1f} s | {error:.1f} s |"
    )
