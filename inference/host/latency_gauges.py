"""What a replica tells Prometheus of its latency and of how many may run."""

from __future__ import annotations

from inference import metrics
from inference.messages import ReplicaRecord


def observe(record: ReplicaRecord) -> None:
    """Of a replica that leaves, nothing is left to be seen as if it were there."""
    which = record.release_name, record.replica
    if record.state != "ready":
        for gauge in (metrics.CONCURRENCY_LIMIT, metrics.ITL_P95, metrics.ITL_OBJECTIVE):
            gauge.labels(*which).set(0)
        return
    metrics.CONCURRENCY_LIMIT.labels(*which).set(record.limit)
    metrics.ITL_P95.labels(*which).set(record.itl_p95_s)
    metrics.ITL_OBJECTIVE.labels(*which).set(record.objective_s)
