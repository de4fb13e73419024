"""How state machines over a real Redis are searched."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def thorough() -> settings:
    """Long walks, none cut short for its time; a failing one is told as it was found."""
    return settings(
        max_examples=80,
        stateful_step_count=40,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
