"""What the time between tokens is to be, by priority class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tenants.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Objectives:
    """by_class: the p95 in seconds that is wanted; classes without one are not in it"""

    by_class: Mapping[PriorityClass, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_class)

    def tightest(self, classes: Iterable[PriorityClass]) -> float | None:
        """Of requests that share their steps: what suits all of them."""
        wanted = (self.by_class[each] for each in classes if each in self.by_class)
        return min(wanted, default=None)
