"""The audit log as a file: streamed page by page, so that neither memory nor a connection is held
for the length of a download.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from kernel.database import database
from tenants.audit_chain import FIELDS
from tenants.models import AuditRecord

AT_ONCE = 1000
# All that is hashed and the hash: whoever has the whole log can verify it from the file alone.
COLUMNS = (*FIELDS, "hash")
# What a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Format:
    """head: before the records; render: some records"""

    suffix: str
    content_type: str
    head: str
    render: Callable[[Sequence[AuditRecord]], str]


def _csv_line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _as_csv(records: Sequence[AuditRecord]) -> str:
    return "".join(
        _csv_line([_cell(value) for value in _values(record).values()]) for record in records
    )


def _as_json_lines(records: Sequence[AuditRecord]) -> str:
    return "".join(json.dumps(_values(record)) + "\n" for record in records)


CSV = Format("csv", "text/csv; charset=utf-8", _csv_line(COLUMNS), _as_csv)
JSON_LINES = Format("jsonl", "application/x-ndjson", "", _as_json_lines)


def download(
    records: QuerySet[AuditRecord], chosen: Format, *, last_seq: int, now: datetime
) -> StreamingHttpResponse:
    """records: made in the scope of whoever asks, which has ended when they are read

    last_seq: where to stop, however much is appended meanwhile
    """
    name = f"audit-{now:%Y%m%d-%H%M%S}.{chosen.suffix}"
    return StreamingHttpResponse(
        _chunks(records.filter(seq__lte=last_seq).order_by("seq"), chosen),
        content_type=chosen.content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _chunks(records: QuerySet[AuditRecord], chosen: Format) -> AsyncIterator[str]:
    if chosen.head:
        yield chosen.head
    after = 0
    while page := await database(_page, records, after):
        yield chosen.render(page)
        after = page[-1].seq


def _page(records: QuerySet[AuditRecord], after: int) -> list[AuditRecord]:
    return list(records.filter(seq__gt=after)[:AT_ONCE])


def _values(record: AuditRecord) -> dict[str, Any]:
    found = {column: getattr(record, column) for column in COLUMNS}
    return found | {"at": record.at.isoformat(timespec="microseconds")}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
