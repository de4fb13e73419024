"""`manage.py clean_up [--dry-run]`: what the worker does every few minutes, now."""

from __future__ import annotations

import asyncio
import getpass
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference.services import maintenance
from kernel.clock import SystemClock
from kernel.database import writing
from kernel.origin import Origin, entered
from kernel.redis import OUTAGE, connected
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome
from tenants.services.audit import record

# What was done, and what would be.
LINES = {
    "checkpoints": ("checkpoints given up", "checkpoints to give up"),
    "replay_keys": ("replay keys forgotten", "replay keys to forget"),
    "idempotency_keys": ("idempotency keys forgotten", "idempotency keys to forget"),
    "logs": ("logs and leases let expire", "logs and leases to let expire"),
}


class Command(BaseCommand):
    help = "Give up checkpoints, replay keys and logs that are past their time or over their size."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        dry_run: bool = options["dry_run"]
        try:
            counts = asyncio.run(_clean_up(dry_run=dry_run))
        except Exception as error:
            if not dry_run:
                _record({}, AuditOutcome.FAILED, type(error).__name__)
            if isinstance(error, OUTAGE):
                raise CommandError(f"The message store can't be reached: {error}") from error
            raise
        if not dry_run:
            _record(counts)
        for name, count in counts.items():
            done, to_do = LINES[name]
            self.stdout.write(f"{count:6d} {to_do if dry_run else done}")
        if dry_run:
            self.stdout.write("Dry run: nothing has been changed.")


def _record(
    counts: dict[str, int], outcome: AuditOutcome = AuditOutcome.DONE, reason: str = ""
) -> None:
    with entered(Origin(login=_login())), writing():
        record(
            AuditAction.MAINTENANCE_RUN,
            actor=None,
            now=SystemClock().now(),
            tenant_id=None,
            after=counts,
            outcome=outcome,
            reason=reason,
        )


def _login() -> str:
    """Who ran it; in a container the user may have a number alone."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


async def _clean_up(*, dry_run: bool) -> dict[str, int]:
    async with connected() as redis:
        work = maintenance.survey if dry_run else maintenance.clean_up
        return await work(redis, SystemClock())
