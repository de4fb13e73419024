"""What streaming counts for Prometheus. Response times of streams are measured here, not by
middleware, which would stop its clock at the response object.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from inference.metrics import SECONDS

OPEN = Gauge(
    "nehir_answers_open",
    "Answers being read, by transport.",
    ["transport"],
    multiprocess_mode="livesum",
)
TTFT = Histogram(
    "nehir_time_to_first_token_seconds",
    "From admission to the first text handed to the transport.",
    ["transport", "model"],
    buckets=SECONDS,
)
ANSWER_TIME = Histogram(
    "nehir_e2e_request_latency_seconds",
    "From admission to the answer's last frame.",
    ["transport", "model"],
    buckets=SECONDS,
)
CONNECTIONS = Gauge(
    "nehir_connections_open",
    "Connections that have a slot, by kind.",
    ["kind"],
    multiprocess_mode="livesum",
)
CONNECTIONS_WAITING = Gauge(
    "nehir_connections_waiting",
    "Connections that wait for a slot, by kind.",
    ["kind"],
    multiprocess_mode="livesum",
)
CONNECTIONS_REFUSED = Counter(
    "nehir_connections_refused",
    "Connections refused because the queue for slots was full, by the limit they met.",
    ["kind", "limit"],
)
CONNECTION_WAIT = Histogram(
    "nehir_connection_wait_seconds",
    "How long connections that had to wait for a slot waited.",
    ["kind"],
    buckets=SECONDS,
)
