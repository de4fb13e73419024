from __future__ import annotations

import msgspec
from prometheus_client import REGISTRY

from inference.host import latency_gauges
from inference.messages import ReplicaRecord

WHICH = {"release": "gauged", "replica": "engine"}


def gauges() -> list[float | None]:
    names = (
        "nehir_concurrency_limit",
        "nehir_inter_token_p95_seconds",
        "nehir_inter_token_p95_objective_seconds",
    )
    return [REGISTRY.get_sample_value(name, WHICH) for name in names]


def test_a_replica_tells_its_limit_and_nothing_once_it_leaves() -> None:
    ready = ReplicaRecord(
        "engine", "inc_a", "rel_a", "gauged", "ready", limit=12, itl_p95_s=0.04, objective_s=0.05
    )
    latency_gauges.observe(ready)
    assert gauges() == [12, 0.04, 0.05]
    latency_gauges.observe(msgspec.structs.replace(ready, state="draining"))
    assert gauges() == [0, 0, 0]
