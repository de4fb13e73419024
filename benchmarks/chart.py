"""A line chart as SVG, readable on light and dark ground."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 76, 110, 16, 44
COLOURS = ("#1b6a98", "#c2571a", "#5a7d2a", "#7a4a9e")
GREY = "#7a8790"


@dataclass(frozen=True, slots=True)
class Curve:
    """x in seconds; dashed: a bound rather than a measurement"""

    name: str
    points: list[tuple[float, float]]
    dashed: bool = False


def _round_up(value: float) -> float:
    """To a number whose quarters are easy to read."""
    unit: float = 10 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 6, 8, 10) if unit * step >= value)


def svg(curves: Sequence[Curve], *, title: str, x_label: str, y_label: str) -> str:
    """The curves from the origin to their largest values."""
    most_x = max(x for curve in curves for x, _ in curve.points)
    most_y = _round_up(max(y for curve in curves for _, y in curve.points))

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / most_x
        return round(across, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / most_y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}" role="img">',
        f"<title>{title}</title>",
    ]
    for part in range(5):
        x, y = at(most_x * part / 4, most_y * part / 4)
        base, left = HEIGHT - BOTTOM, LEFT
        parts += [
            f'<path d="M{left} {y}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-opacity=".3"/>',
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{most_y * part / 4:,.0f}</text>',
            f'<text x="{x}" y="{base + 16}" text-anchor="middle">{most_x * part / 4:,.0f}</text>',
        ]
    parts += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" '
        f'text-anchor="middle">{x_label}</text>',
        f'<text transform="translate(12 {HEIGHT / 2}) rotate(-90)" '
        f'text-anchor="middle">{y_label}</text>',
    ]
    for number, curve in enumerate(curves):
        colour = GREY if curve.dashed else COLOURS[number % len(COLOURS)]
        where = " ".join(f"{x},{y}" for x, y in (at(*point) for point in curve.points))
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        end_x, end_y = at(*curve.points[-1])
        parts += [
            f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>',
            f'<text x="{end_x + 6}" y="{end_y + 4}" fill="{colour}">{curve.name}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
