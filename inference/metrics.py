"""What inference counts for Prometheus, in web processes and engine hosts alike.

Where vLLM has a name for it, it is `nehir_` with that name; docs/operations.md lists them all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from inference.messages import QueuedRequest

# From a prefix cache hit to a long prompt behind a full queue.
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
# From a small model's step to one in which a long prompt is prefilled.
STEP_SECONDS = (
    *(0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5),
)

ADMITTED = Counter(
    "nehir_generations_admitted", "Generations put into a release's queue.", ["model"]
)
REFUSED = Counter(
    "nehir_generations_refused", "Requests refused at admission, by error code.", ["code"]
)
ENDED = Counter(
    "nehir_generations_ended", "Generations ended by an engine host.", ["release", "outcome"]
)
OUTPUT_TOKENS = Counter("nehir_generation_tokens", "Tokens made and written to logs.", ["release"])
TENANT_TOKENS = Counter(
    "nehir_tenant_tokens",
    "Tokens by kind: input, those of them that were cached_input, and output. Tenants beyond the"
    " first hundred together.",
    ["release", "priority", "tenant", "type"],
)
QUEUE_TIME = Histogram(
    "nehir_request_queue_time_seconds",
    "From admission to an engine host.",
    ["release", "priority"],
    buckets=SECONDS,
)
INTER_TOKEN = Histogram(
    "nehir_inter_token_latency_seconds",
    "Between an answer's tokens as the engine gives them, while it isn't held.",
    ["release"],
    buckets=STEP_SECONDS,
)
WAITING = Gauge(
    "nehir_num_requests_waiting",
    "Requests in a release's queue.",
    ["release", "priority"],
    multiprocess_mode="mostrecent",
)
RUNNING = Gauge(
    "nehir_num_requests_running",
    "Generations that a replica decodes.",
    ["release", "replica"],
    multiprocess_mode="livemostrecent",
)
HELD = Gauge(
    "nehir_num_requests_held",
    "Generations of a replica that wait for their reader, or for a slot of a higher class.",
    ["release", "replica"],
    multiprocess_mode="livemostrecent",
)
FAIRNESS_GAP = Gauge(
    "nehir_fairness_gap",
    "How far apart the virtual counters are of the tenants that wait.",
    ["release", "priority"],
    multiprocess_mode="mostrecent",
)
FAIRNESS_BOUND = Gauge(
    "nehir_fairness_gap_bound",
    "How far apart they may be.",
    ["release", "priority"],
    multiprocess_mode="mostrecent",
)
CONCURRENCY_LIMIT = Gauge(
    "nehir_concurrency_limit",
    "How many requests may run on a replica: its slots, or what keeps the objective.",
    ["release", "replica"],
    multiprocess_mode="mostrecent",
)
ITL_P95 = Gauge(
    "nehir_inter_token_p95_seconds",
    "Between tokens, p95 lately; 0 while none come.",
    ["release", "replica"],
    multiprocess_mode="mostrecent",
)
ITL_OBJECTIVE = Gauge(
    "nehir_inter_token_p95_objective_seconds",
    "What it is to be: the tightest of the classes that run; 0 for none.",
    ["release", "replica"],
    multiprocess_mode="mostrecent",
)
EXECUTION_TIME = Histogram(
    "nehir_request_inference_time_seconds",
    "From an engine host taking a generation to its last entry.",
    ["release"],
    buckets=SECONDS,
)
WAIT_ESTIMATES = Counter(
    "nehir_wait_estimates",
    "Waits that were told, by whether they were within the p90 told first.",
    ["model", "priority", "outcome"],
)
PREFIX_CLAIMS = Counter(
    "nehir_prefix_claims",
    "Generations taken by a replica that has served most of their prompt (hit), that another has"
    " (elsewhere), that none has (miss), or too short to tell (short).",
    ["release", "match"],
)
PREFIX_QUERIES = Counter(
    "nehir_prefix_cache_queries", "Prompt tokens looked up in prefix caches.", ["release"]
)
PREFIX_HITS = Counter(
    "nehir_prefix_cache_hits", "Of these, the tokens that were found there.", ["release"]
)
HOLDS = Counter(
    "nehir_holds",
    "Times a generation was held in its engine: for want of credit, or for a higher class.",
    ["release", "reason"],
)
KV_USAGE = Gauge(
    "nehir_kv_cache_usage_perc",
    "Share of a replica's KV cache blocks that requests keep; 1 is all.",
    ["release", "replica"],
    multiprocess_mode="livemostrecent",
)
PREEMPTIONS = Counter(
    "nehir_num_preemptions",
    "Times that an engine took a request's KV blocks away, held ones first.",
    ["release"],
)
RESTORES = Counter(
    "nehir_restores", "Generations that went on in an engine after they had begun.", ["release"]
)
TAKEN_OVER = Counter(
    "nehir_takeovers", "Generations put back into their queue after their engine was lost."
)
REPLAYED = Counter("nehir_replays", "Requests answered by an earlier generation.", ["model"])


class Gathered:
    """Observations of a histogram for which a file's update each would cost too much: they are
    gathered, and published together.
    """

    def __init__(self, histogram: Histogram, buckets: Sequence[float]) -> None:
        self._histogram = histogram
        self._bounds = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def publish(self) -> None:
        """By the histogram's own counters, which its `observe` counts up by one."""
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):  # noqa: SLF001
            if count:
                bucket.inc(count)
        self._histogram._sum.inc(self._sum)  # noqa: SLF001
        self._counts = [0] * len(self._counts)
        self._sum = 0.0


class BoundedLabels:
    """Label values of which there may be any number, the first of them by name, the rest as one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._named and len(self._named) >= self._most:
            return "other"
        self._named.add(name)
        return name


tenants = BoundedLabels(100)


def tenant_tokens(release: str, request: QueuedRequest, kind: str) -> Counter:
    tenant = tenants.of(request.tenant_id)
    return TENANT_TOKENS.labels(release, request.priority_class, tenant, kind)
