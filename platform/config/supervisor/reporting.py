"""How everything is: what `manage.py status` shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from config.supervisor.messages import ProcessState, ReplicaState, Report
from config.supervisor.supervisor import Child
from inference.messages import ReplicaRecord

HEADS = ("process", "state", "pid", "for", "restarts")
REPLICA_HEADS = ("replica", "release", "state", "running", "held", "waiting")
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def report(
    children: Iterable[Child],
    replicas: list[ReplicaRecord] | None,
    *,
    going_on: str = "",
    failed: str = "",
) -> Report:
    return Report(
        [_process(child) for child in sorted(children, key=lambda child: child.service.stop_rank)],
        None if replicas is None else sorted(map(_replica, replicas), key=lambda r: r.replica),
        going_on=going_on,
        failed=failed,
    )


def _process(child: Child) -> ProcessState:
    return ProcessState(
        name=child.service.name,
        state=child.life.phase.value,
        pid=child.process.pid if child.process else None,
        since=child.since.isoformat(timespec="seconds"),
        restarts=max(0, child.starts - 1),
        release=child.service.release,
    )


def _replica(record: ReplicaRecord) -> ReplicaState:
    return ReplicaState(
        record.replica,
        record.release_name,
        record.state,
        record.running,
        record.held,
        record.waiting,
    )


def as_text(found: Report, *, now: datetime) -> str:
    """Two tables for people."""
    rows = [
        (each.name, each.state, each.pid or "-", _ago(each.since, now), each.restarts)
        for each in found.processes
    ]
    tables = [_table(HEADS, rows)]
    if found.replicas is None:
        tables.append("Redis does not answer: nothing is known of the replicas.")
    elif found.replicas:
        rows_of = [
            (each.replica, each.release, each.state, each.running, each.held, each.waiting)
            for each in found.replicas
        ]
        tables.append(_table(REPLICA_HEADS, rows_of))
    return "\n\n".join(tables)


def _ago(since: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [[*heads], *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
