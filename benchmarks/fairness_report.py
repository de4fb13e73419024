"""The tables and the plot of docs/fairness.md; its words are written by people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.chart import svg
from benchmarks.experiments import BOUND, Results, Row

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, PLOT = DOCS / "fairness.md", DOCS / "fairness.svg"


def line(row: Row) -> str:
    """For the terminal."""
    published = "" if row.published is None else f"{row.published:,.1f}"
    difference = "" if row.difference is None else f"{row.difference:+.1%}"
    return f"{row.figure:52} {row.measured:12,.1f} {published:>12} {difference:>8}"


def write(results: Results) -> None:
    """Put the figures between the page's marks, and draw the plot."""
    page = PAGE.read_text()
    for name, table in (("experiments", _table(results.rows)), ("estimates", results.estimates)):
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda found, text=table: f"{found[1]}{text}\n{found[2]}", page)
    PAGE.write_text(page)
    PLOT.write_text(
        svg(
            [*results.curves, BOUND],
            title="How far two overloading tenants are apart in service",
            x_label="seconds",
            y_label="difference in service (tokens by cost)",
        )
    )


def _table(rows: Sequence[Row]) -> str:
    lines = ["| | simulated | published | difference |", "|---|---|---|---|"]
    experiment = ""
    for row in rows:
        if row.experiment != experiment:
            experiment = row.experiment
            lines.append(f"| **{experiment}** | | | |")
        published = "" if row.published is None else _number(row.published)
        difference = "" if row.difference is None else f"{row.difference:+.1%}"
        lines.append(f"| {row.figure} | {_number(row.measured)} | {published} | {difference} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 200 else f"{value:,.1f}"
