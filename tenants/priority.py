"""Priority classes: who is served first when not all can be, and who may use which."""

from __future__ import annotations

from typing import Literal, get_args

from kernel.errors import PermissionDenied

PriorityClass = Literal["interactive", "standard", "batch"]
# The highest first.
CLASSES: tuple[PriorityClass, ...] = get_args(PriorityClass)
# By class, 0 for the highest.
RANKS = {each: rank for rank, each in enumerate(CLASSES)}


def lower(one: PriorityClass, other: PriorityClass) -> PriorityClass:
    """Of two the one that is served later."""
    return max(one, other, key=CLASSES.index)


def chosen(asked: PriorityClass, *, highest: PriorityClass) -> PriorityClass:
    """What was asked for. Raises PermissionDenied `priority_not_allowed` above `highest`."""
    if CLASSES.index(asked) < CLASSES.index(highest):
        raise PermissionDenied(
            f"Requests of priority {asked} are not allowed here; the highest allowed is {highest}.",
            code="priority_not_allowed",
            param="service_tier",
        )
    return asked
