"""What inference counts for Prometheus, in web processes and engine hosts alike."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

# From a prefix cache hit to a long prompt behind a full queue.
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

ADMITTED = Counter(
    "nehir_generations_admitted", "Generations put into a release's queue.", ["model"]
)
REFUSED = Counter(
    "nehir_generations_refused", "Requests refused at admission, by error code.", ["code"]
)
ENDED = Counter(
    "nehir_generations_ended", "Generations ended by an engine host.", ["release", "outcome"]
)
OUTPUT_TOKENS = Counter("nehir_output_tokens", "Tokens made and written to logs.", ["release"])
QUEUE_TIME = Histogram(
    "nehir_queue_time_seconds", "From admission to an engine host.", ["release"], buckets=SECONDS
)
EXECUTION_TIME = Histogram(
    "nehir_execution_time_seconds",
    "From an engine host taking a generation to its last entry.",
    ["release"],
    buckets=SECONDS,
)
HOLDS = Counter("nehir_holds", "Times a generation was held for want of credit.", ["release"])
TAKEN_OVER = Counter(
    "nehir_takeovers", "Generations put back into their queue after their engine was lost."
)
REPLAYED = Counter("nehir_replays", "Requests answered by an earlier generation.", ["model"])
