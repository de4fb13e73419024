"""Settled generations in the audit chain, many by one record: how many, their tokens, and a digest
over what their records say. Made by the worker, so that nothing waits for the chain's end where
generations are admitted or settled.

A seal is one audit record and the generations that name it, written in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.db.models import Exists, OuterRef

from inference.models import Generation
from kernel.database import writing
from kernel.ids import new_id
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.models import AuditRecord
from tenants.services.audit import Target, record

# What is hashed of a generation, in this order; never extended, or old seals could not be verified.
# Not the conversation, which may be forgotten.
FIELDS = (
    "id",
    "tenant_id",
    "principal",
    "key_id",
    "route_id",
    "release_id",
    "state",
    "finish_reason",
    "error_code",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "created_at",
    "settled_at",
)
KIND = "seal"
# Generations of one seal, and seals of one round, at most: bounds memory, and for how long others
# that have something to record wait.
AT_ONCE = 1000
MOST_SEALS = 100
SEALS_AT_ONCE = 10
UNKNOWN = 100

Row = Sequence[Any]


def seal_settled(*, now: datetime) -> int:
    """Seal what was settled since the last round, tenant by tenant; how many generations. May run
    several times at once: each generation gets one seal.
    """
    sealed = 0
    for _ in range(MOST_SEALS):
        count = _seal_next(now)
        if not count:
            break
        sealed += count
    return sealed


def _seal_next(now: datetime) -> int:
    with scope.whole_platform():
        unsealed = Generation.objects.filter(seal=None, settled_at__isnull=False)
        tenant_id = unsealed.order_by("tenant_id").values_list("tenant_id", flat=True).first()
        return 0 if tenant_id is None else _seal(tenant_id, now)


def _seal(tenant_id: str, now: datetime) -> int:
    with writing():
        unsealed = Generation.objects.filter(seal=None, settled_at__isnull=False)
        # In order of id, as settlement locks them; who seals at the same time takes others.
        rows = list(
            unsealed.filter(tenant_id=tenant_id)
            .select_for_update(skip_locked=True)
            .order_by("id")
            .values_list(*FIELDS)[:AT_ONCE]
        )
        if rows:
            _write(rows, tenant_id, now)
    return len(rows)


def _write(rows: Sequence[Row], tenant_id: str, now: datetime) -> None:
    seal = new_id("seal")
    Generation.objects.filter(id__in=[row[0] for row in rows]).update(seal=seal)
    record(
        AuditAction.GENERATIONS_SEAL,
        actor=None,
        now=now,
        tenant_id=tenant_id,
        target=Target(KIND, seal, digest=digest(rows)),
        after=_totals(rows),
    )


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    prompt, output = FIELDS.index("prompt_tokens"), FIELDS.index("output_tokens")
    return {
        "generations": len(rows),
        "prompt_tokens": sum(row[prompt] for row in rows),
        "output_tokens": sum(row[output] for row in rows),
    }


def digest(rows: Iterable[Row]) -> str:
    """SHA-256 over the rows' values of FIELDS, in order of id, as lines of canonical JSON."""
    found = hashlib.sha256()
    for row in sorted(rows, key=lambda row: str(row[0])):
        line = json.dumps([_plain(value) for value in row], separators=(",", ":"))
        found.update(line.encode() + b"\n")
    return found.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value


# -- Verifying


def breaks() -> Iterator[str]:
    """What no longer is as it was sealed, a sentence each. Bounded memory."""
    with scope.whole_platform():
        yield from _unknown()
        seals = AuditRecord.objects.filter(action=AuditAction.GENERATIONS_SEAL).order_by("seq")
        some: list[AuditRecord] = []
        for each in seals.iterator(chunk_size=AT_ONCE):
            some.append(each)
            if len(some) == SEALS_AT_ONCE:
                yield from _compare(some)
                some = []
        yield from _compare(some)


def _compare(records: Sequence[AuditRecord]) -> Iterator[str]:
    ids = [sealing.object_id for sealing in records]
    rows = (
        Generation.objects.filter(seal__in=ids).order_by("seal", "id").values_list("seal", *FIELDS)
    )
    found = {seal: [row[1:] for row in group] for seal, group in groupby(rows, lambda row: row[0])}
    for sealing in records:
        yield from _differences(sealing, found.get(sealing.object_id, []))


def _differences(sealing: AuditRecord, rows: Sequence[Row]) -> Iterator[str]:
    sealed = sealing.after.get("generations", 0)
    if len(rows) != sealed:
        yield f"{sealing.seq}: it sealed {sealed} generations, and there are {len(rows)}"
    elif digest(rows) != sealing.object_digest:
        yield f"{sealing.seq}: of the {sealed} generations that it sealed, some were changed"


def _unknown() -> Iterator[str]:
    """Generations whose seal nobody recorded. The rows first, the records after them: a seal that
    is made meanwhile is no break.
    """
    records = AuditRecord.objects.filter(
        action=AuditAction.GENERATIONS_SEAL, object_id=OuterRef("seal")
    )
    sealed = Generation.objects.exclude(seal=None).filter(~Exists(records)).order_by("id")
    for generation_id, seal in sealed.values_list("id", "seal")[:UNKNOWN]:
        yield f"generation {generation_id} names a seal that was never recorded: {seal}"
