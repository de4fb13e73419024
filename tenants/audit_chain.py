"""How audit records hang together: each carries the hash of the one before it, so that a record
that was changed, taken out or moved shows.

Pure: no database. The hash is SHA-256 over a record's fields as canonical JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenants.models import AuditRecord

GENESIS = "0" * 64
# All that is hashed, in no order of importance. A field that is added later isn't among them: the
# records before it could not be verified.
FIELDS = (
    "seq",
    "prev_hash",
    "at",
    "tenant_id",
    "actor_type",
    "actor_id",
    "session",
    "key_id",
    "auth_method",
    "mfa",
    "ip",
    "request_id",
    "action",
    "object_type",
    "object_id",
    "object_version",
    "object_digest",
    "before",
    "after",
    "decision",
    "reason",
    "outcome",
)


def digest(record: AuditRecord) -> str:
    """What `hash` has to be."""
    values = {field: _plain(getattr(record, field)) for field in FIELDS}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value


@dataclass(frozen=True, slots=True)
class Break:
    """seq: of the record at which it shows; what: one sentence"""

    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class End:
    """Where a chain ends, as `AuditHead` has it; a note of it elsewhere proves that nothing before
    it was written anew."""

    seq: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


class Walk:
    """Goes along a chain, record by record in order of seq, and tells each break once.

    end: the last record seen
    """

    def __init__(self) -> None:
        self.end = End()

    def breaks(self, records: Iterable[AuditRecord]) -> Iterator[Break]:
        for record in records:
            yield from self._look(record)
            self.end = End(record.seq, record.hash)

    def _look(self, record: AuditRecord) -> Iterator[Break]:
        expected = self.end.seq + 1
        if record.seq != expected:
            yield Break(record.seq, f"records {expected} to {record.seq - 1} are missing")
        elif record.prev_hash != self.end.hash:
            yield Break(record.seq, "it does not follow from the record before it")
        if digest(record) != record.hash:
            yield Break(record.seq, "it was changed")
