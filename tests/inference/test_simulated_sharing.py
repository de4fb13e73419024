"""The simulation behind docs/fairness.md, for a minute: enough to see that it still says so."""

from __future__ import annotations

from benchmarks.measures import gaps, mean_ttft
from benchmarks.simulation import Served, Simulation
from benchmarks.workloads import Arrival, evenly
from kernel.redis import Client

UNTIL_S = 60


def overloading() -> list[Arrival]:
    return [
        *evenly("ten_a", 1.5, until_s=UNTIL_S, shift=0.4),
        *evenly("ten_b", 3, until_s=UNTIL_S, shift=0.9),
    ]


def apart(served: list[Served]) -> float:
    return max(gaps(served, "ten_a", "ten_b", UNTIL_S))


async def test_two_that_ask_for_too_much_get_the_same(redis: Client) -> None:
    fair = await Simulation(redis).run(overloading())
    first_come = await Simulation(redis, one_line=True).run(overloading())
    assert apart(fair) < 12_000
    assert apart(first_come) > 20_000


async def test_who_asks_for_little_waits_little_whatever_others_ask(redis: Client) -> None:
    flood = [*evenly("ten_a", 0.2, until_s=UNTIL_S), *evenly("ten_b", 5, until_s=UNTIL_S)]
    fair = await Simulation(redis).run(flood)
    first_come = await Simulation(redis, one_line=True).run(flood)
    assert mean_ttft(fair, "ten_a") < 8
    assert mean_ttft(first_come, "ten_a") > 3 * mean_ttft(fair, "ten_a")
