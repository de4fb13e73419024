"""What the audit log tells, for tests to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenants import scope
from tenants.models import AuditRecord


def recorded(action: str | None = None) -> list[AuditRecord]:
    """Every record, or those of one action, in order."""
    with scope.whole_platform():
        records = AuditRecord.objects.order_by("seq")
        return list(records.filter(action=action) if action else records)


@contextmanager
def new_records() -> Iterator[list[AuditRecord]]:
    """Filled at the end with what was written meanwhile."""
    before = len(recorded())
    found: list[AuditRecord] = []
    yield found
    found += recorded()[before:]
