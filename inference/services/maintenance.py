"""The clean-up: what is past its time or over its size, each run recorded.

Every step may be run at any time, by several at once, and again after one that broke off.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Protocol

from inference.models import Maintenance, MaintenanceRun
from inference.services import checkpoints, ended_logs, replays
from kernel.clock import Clock
from kernel.database import database
from kernel.redis import Client
from tenants.services import idempotency

KEPT_RUNS = 100
ERROR_CHARACTERS = 500


class Step(Protocol):
    """Cleans up, or only looks; how many it dealt with."""

    def __call__(self, redis: Client, clock: Clock, *, dry_run: bool) -> Awaitable[int]: ...


async def _replay_keys(redis: Client, clock: Clock, *, dry_run: bool) -> int:
    return await database(replays.forget_expired, clock.now(), dry_run=dry_run)


async def _idempotency_keys(redis: Client, clock: Clock, *, dry_run: bool) -> int:
    return await database(idempotency.forget_expired, clock.now(), dry_run=dry_run)


STEPS: dict[str, Step] = {
    "checkpoints": checkpoints.clean_up,
    "replay_keys": _replay_keys,
    "idempotency_keys": _idempotency_keys,
    "logs": ended_logs.let_expire,
}


async def clean_up(redis: Client, clock: Clock) -> dict[str, int]:
    """Run every step; how many each dealt with. Raises what a step raises, which is recorded."""
    run_id = await database(_begin, Maintenance.CLEAN_UP, clock.now())
    counts: dict[str, int] = {}
    error = ""
    try:
        for name, step in STEPS.items():
            counts[name] = await step(redis, clock, dry_run=False)
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"[:ERROR_CHARACTERS]
        raise
    finally:
        await database(_end, run_id, counts, error, clock.now())
    return counts


async def survey(redis: Client, clock: Clock) -> dict[str, int]:
    """What a clean-up would find now. Changes nothing."""
    return {name: await step(redis, clock, dry_run=True) for name, step in STEPS.items()}


def _begin(name: str, now: datetime) -> int:
    return MaintenanceRun.objects.create(name=name, started_at=now).pk


def _end(run_id: int, counts: dict[str, int], error: str, now: datetime) -> None:
    runs = MaintenanceRun.objects.filter(pk=run_id)
    runs.update(finished_at=now, counts=counts, error=error)
    alike = MaintenanceRun.objects.filter(name__in=runs.values("name")).order_by("-pk")
    old = list(alike.values_list("pk", flat=True)[KEPT_RUNS:])
    MaintenanceRun.objects.filter(pk__in=old).delete()
