from __future__ import annotations

from dataclasses import replace

from prometheus_client import REGISTRY

from web.backpressure.stats import FlowStats
from web.flow_metrics import FlowMetrics

QUIET = FlowStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, draining=False)


def value(name: str) -> float:
    return REGISTRY.get_sample_value(f"nehir_web_{name}") or 0.0


def test_what_is_now_is_set_and_what_grows_is_counted() -> None:
    metrics, before = FlowMetrics(), value("accepted_total")
    metrics.note(replace(QUIET, websocket_connections=3, accepted=5))
    metrics.note(replace(QUIET, websocket_connections=2, accepted=9))
    assert value("websocket_connections") == 2
    assert value("accepted_total") - before == 9
    # Another server, as after a restart within this process, begins at nothing.
    FlowMetrics().note(replace(QUIET, accepted=1))
    assert value("accepted_total") - before == 10
