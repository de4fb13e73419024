"""Going through the whole audit log: is it what was written?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from django.db import transaction

from tenants import scope
from tenants.audit_chain import GENESIS, End, Walk
from tenants.models import AuditHead, AuditRecord

AT_ONCE = 2000
# Of many breaks the first tell enough.
MOST = 100

Check = Callable[[], Iterator[str]]
_checks: list[Check] = []


def register(check: Check) -> None:
    """Have what records tell of by a digest alone compared with it: a sentence for each break."""
    _checks.append(check)


@dataclass
class Finding:
    """end: of the log as it is; breaks: sentences, none for a whole log, MOST at most"""

    end: End
    breaks: list[str] = field(default_factory=list)


def check(*, expect: End | None = None) -> Finding:
    """Read every record and the chain's head. Bounded memory, one moment's view.

    expect: the end as it was noted once
    """
    walk, found = Walk(), list[str]()
    with scope.whole_platform(), transaction.atomic():
        # First: what is appended meanwhile is beyond it on PostgreSQL, and waits on SQLite.
        head = AuditHead.objects.first()
        end = End(head.seq, head.hash) if head else End()
        for record in _records(end):
            found += [f"{each.seq}: {each.what}" for each in walk.breaks([record])]
            if expect and record.seq == expect.seq and record.hash != expect.hash:
                found.append(f"{record.seq}: it was another when it was noted")
    found += _ends(walk.end, end, expect)
    for other in _checks:
        found += islice(other(), MOST)
    return Finding(walk.end, found[:MOST])


def _records(end: End) -> Iterator[AuditRecord]:
    records = AuditRecord.objects.order_by("seq")
    if end != End():
        records = records.filter(seq__lte=end.seq)
    return records.iterator(chunk_size=AT_ONCE)


def _ends(reached: End, head: End, expect: End | None) -> Iterator[str]:
    if reached.seq != head.seq:
        yield f"the log ends at {reached.seq}, not at {head.seq}"
    elif reached.hash != head.hash:
        yield f"the log's end is not the one that was written: {head}"
    if expect and expect.hash != GENESIS and reached.seq < expect.seq:
        yield f"the log reached to {expect.seq} when it was noted"
