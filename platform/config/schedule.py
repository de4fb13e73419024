"""What the worker does again and again, and how often; a round that is late is left out."""

from __future__ import annotations

from typing import Any


def _every(seconds: float, task: str) -> dict[str, Any]:
    return {"task": f"inference.tasks.{task}", "schedule": seconds, "options": {"expires": seconds}}


ROUNDS = {
    "close-lost-generations": _every(10.0, "close_lost_generations"),
    "clean-up-checkpoints": _every(300.0, "clean_up_checkpoints"),
    "seal-generations": _every(60.0, "seal_generations"),
    "count-usage": _every(15.0, "count_usage"),
}
