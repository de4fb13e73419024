"""What was measured, as text: percentiles, a table, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from statistics import quantiles


def percentile(values: list[float], percent: int) -> float:
    """Of at least one value, between its neighbours by their distance."""
    return quantiles(values, n=100, method="inclusive")[percent - 1] if values[1:] else values[0]


def machine() -> str:
    """One line: processor, cores, memory, Python, and how busy it was before."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    one_minute, five_minutes, _ = os.getloadavg()
    return (
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, "
        f"Python {platform.python_version()}, load before {one_minute:.1f} (1 min) "
        f"{five_minutes:.1f} (5 min)"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


class Table:
    """Rows of a measure for both sides, with difference and ratio."""

    def __init__(self, ours: str, theirs: str) -> None:
        self._rows = [("", ours, theirs, "difference", "ratio")]

    def add(self, name: str, ours: float, theirs: float) -> None:
        ratio = f"{ours / theirs:.3f}" if theirs else "-"
        row = (name, f"{ours:.1f}", f"{theirs:.1f}", f"{ours - theirs:+.1f}", ratio)
        self._rows.append(row)

    def add_times(self, name: str, ours_ms: list[float], theirs_ms: list[float]) -> None:
        for percent in (50, 95):
            label = f"{name} p{percent} (ms)"
            self.add(label, percentile(ours_ms, percent), percentile(theirs_ms, percent))

    def __str__(self) -> str:
        widths = [max(len(row[column]) for row in self._rows) for column in range(5)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in self._rows
        )
