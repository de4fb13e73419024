"""Latency objectives under overload, simulated on the production queue, with them and without.
`python benchmarks/latency.py [--write]` (5 minutes; --write renews docs/latency.md)
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.ground import valkey

if TYPE_CHECKING:
    from benchmarks.latency_simulation import LatencySimulation
    from benchmarks.wait_estimates import Teller
    from benchmarks.workloads import Arrival

ROOMY = {
    "NEHIR_QUEUE_LIMIT": "100000",
    "NEHIR_QUEUE_LIMIT_PER_TENANT": "100000",
    "NEHIR_QUEUE_TIMEOUT_S": "86400",
}
DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, PLOT, LIMIT_PLOT = (
    DOCS / name for name in ("latency.md", "latency.svg", "latency-limit.svg")
)
WANTED_MS = {"interactive": 50, "standard": 65}
# People come and go; batch work is there from the beginning to the end.
FROM_S, TO_S, UNTIL_S = 150, 350, 500
SPAN_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/latency.md")
    options = parser.parse_args()
    with valkey(**ROOMY):
        asyncio.run(_run(options.write))


def workload() -> list[Arrival]:
    from benchmarks.workloads import evenly, poisson

    chance = random.Random(5)  # noqa: S311 - a workload, not a secret
    length_s = TO_S - FROM_S
    talk = poisson("ten_a", 1.5, until_s=length_s, tokens=128, chance=chance)
    work = poisson("ten_b", 1.0, until_s=length_s, tokens=256, chance=chance)
    later = {"interactive": talk, "standard": work}
    return [
        *(replace(each, priority_class="batch") for each in evenly("ten_c", 4, until_s=UNTIL_S)),
        *(
            replace(each, at_s=each.at_s + FROM_S, priority_class=priority_class)
            for priority_class, arrivals in later.items()
            for each in arrivals
        ),
    ]


async def _run(write: bool) -> None:
    from benchmarks.latency_simulation import LatencySimulation
    from benchmarks.wait_estimates import Teller
    from inference.objectives import Objectives
    from kernel.redis import client

    wanted = Objectives({each: ms / 1000 for each, ms in WANTED_MS.items()})
    found = []
    for objectives in (Objectives(), wanted):
        teller = Teller()
        simulation = LatencySimulation(client(), observer=teller.watch, objectives=objectives)
        await simulation.run(workload())
        found.append((simulation, teller))
    text = _table(*found)
    print(text)
    if write:
        page = re.sub(
            r"(<!-- simulated -->\n).*?(<!-- end -->)",
            lambda marked: f"{marked[1]}{text}\n{marked[2]}",
            PAGE.read_text(),
            flags=re.DOTALL,
        )
        PAGE.write_text(page)
        _draw(*(simulation for simulation, _ in found))


Result = tuple["LatencySimulation", "Teller"]


def _table(free: Result, limited: Result) -> str:
    lines = ["| | no objective | with objectives |", "|---|---|---|"]

    def add(name: str, *values: str) -> None:
        lines.append(f"| {name} | {' | '.join(values)} |")

    for each in ("interactive", "standard", "batch"):
        goal = f" (wanted: {WANTED_MS[each]} ms)" if each in WANTED_MS else ""
        add(f"{each}: between tokens p95{goal}", *(_p95(one, each) for one, _ in (free, limited)))
    for each in ("interactive", "standard", "batch"):
        add(f"{each}: mean wait (longest)", *(_wait(one, each) for one, _ in (free, limited)))
    add("tokens/s, all", *(_rate(one) for one, _ in (free, limited)))
    add("first told waits within their p90", *(_covered(*one) for one in (free, limited)))
    return "\n".join(lines)


def _p95(simulation: LatencySimulation, priority_class: str) -> str:
    from benchmarks.latency_simulation import p95_ms

    gaps = [each for each in simulation.gaps if each.priority_class == priority_class]
    return f"{p95_ms(gaps):.1f} ms"


def _wait(simulation: LatencySimulation, priority_class: str) -> str:
    served = simulation.served.values()
    waits = [
        each.taken_s - each.arrival.at_s
        for each in served
        if each.arrival.priority_class == priority_class
    ]
    return f"{fmean(waits):.1f} s ({max(waits):.1f} s)"


def _rate(simulation: LatencySimulation) -> str:
    """Until the last request came; after it there is less to do."""
    return f"{sum(each.at_s < UNTIL_S for each in simulation.gaps) / UNTIL_S:.0f}"


def _covered(simulation: LatencySimulation, teller: Teller) -> str:
    told = [(*teller.told[name], simulation.served[name]) for name in teller.told]
    within = [each.taken_s - at_s <= wait.p90_s for wait, at_s, each in told]
    return f"{fmean(within):.0%} of {len(within)}"


def _draw(free: LatencySimulation, limited: LatencySimulation) -> None:
    from benchmarks.chart import Curve, svg
    from benchmarks.latency_simulation import by_time

    def shown(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [point for point in points if point[0] < UNTIL_S]

    wanted = [(float(FROM_S), 50.0), (float(TO_S), 50.0)]
    curves = [
        Curve("none", shown(by_time(free.gaps, every_s=SPAN_S))),
        Curve("objectives", shown(by_time(limited.gaps, every_s=SPAN_S))),
        Curve("wanted", wanted, dashed=True),
    ]
    title = "Between tokens, p95 of five seconds"
    PLOT.write_text(svg(curves, title=title, x_label="seconds", y_label="milliseconds"))
    limits = limited.limits
    curves = [
        Curve("may run", shown([(at_s, float(limit)) for at_s, limit, _ in limits])),
        Curve("run", shown([(at_s, float(running)) for at_s, _, running in limits])),
    ]
    title = "How many may run, and do, with objectives"
    LIMIT_PLOT.write_text(svg(curves, title=title, x_label="seconds", y_label="requests"))


if __name__ == "__main__":
    main()
