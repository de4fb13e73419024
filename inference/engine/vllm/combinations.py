"""Which of vLLM's engine arguments go together with holding and restoring single requests.

Checked before vLLM is imported, so that a release that can't work says why in a second. What is in
no row is vLLM's own affair; `docs/operations.md` says what of it has been tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Refusal:
    """argument: by vLLM's name; refuses: of its value, if given; why: ends its sentence"""

    argument: str
    refuses: Callable[[Any], bool]
    why: str


def _is_given(_: Any) -> bool:
    return True


BACKEND = "guidance"


REFUSALS = (
    Refusal("scheduler_cls", _is_given, "Nehir's own is what holds and restores single requests"),
    Refusal("worker_extension_cls", _is_given, "Nehir's own is what restores requests in workers"),
    Refusal(
        "scheduling_policy",
        lambda policy: policy != "priority",
        "held requests are preempted first by their priority",
    ),
    Refusal(
        "structured_outputs_config",
        lambda given: not isinstance(given, dict) or given.get("backend", BACKEND) != BACKEND,
        f"it is an object, whose backend, if any, is {BACKEND!r}: the compiler that requests are "
        "checked by",
    ),
    Refusal(
        "enable_lora",
        bool,
        "no request can name an adapter yet, and requests that are let go on together may need "
        "more adapters than vLLM has room for, which ends its engine",
    ),
)


def refusal(arguments: dict[str, Any]) -> str | None:
    """Why these engine arguments can't be served, in a sentence; None if they can."""
    for row in REFUSALS:
        if row.argument in arguments and row.refuses(arguments[row.argument]):
            given = arguments[row.argument]
            return f"The engine argument {row.argument}={given!r} can't be used: {row.why}."
    return None
