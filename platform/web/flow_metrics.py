"""What the server of this process holds, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from web.backpressure import stats
from web.backpressure.stats import FlowStats

# FlowStats' fields that tell of now, and those that only grow.
NOW = {
    "http_connections": "Connections over HTTP, idle ones included.",
    "websocket_connections": "Connections over WebSocket.",
    "waiting_sends": "Applications that wait for their reader.",
    "buffered_bytes": "Output that waits in web processes.",
}
GROWING = {
    "accepted": "Connections accepted.",
    "refused_connections": "Connections refused because too many were open.",
    "refused_bodies": "Requests refused for the size of their body.",
    "timed_out_requests": "Requests cut off because they came in too slowly.",
    "evicted_stalls": "Readers cut off because they took nothing.",
}
_gauges = {
    name: Gauge(f"nehir_web_{name}", text, multiprocess_mode="livesum")
    for name, text in NOW.items()
}
_counters = {name: Counter(f"nehir_web_{name}", text) for name, text in GROWING.items()}


class FlowMetrics:
    """Keeps the metrics up to date with one server's figures."""

    def __init__(self) -> None:
        self._counted: FlowStats | None = None

    def note(self, figures: FlowStats) -> None:
        for name, gauge in _gauges.items():
            gauge.set(getattr(figures, name))
        for name, counter in _counters.items():
            counter.inc(getattr(figures, name) - getattr(self._counted, name, 0))
        self._counted = figures


def export() -> None:
    """Have the figures of this process' server in the metrics, a second old at most."""
    stats.observe(FlowMetrics().note)
