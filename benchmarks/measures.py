"""What VTC's authors measure of a run, measured the same way, so that figures can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.simulation import Served

POINTS = 20


def service(served: Sequence[Served], tenant: str, since_s: float, until_s: float) -> float:
    """Tokens by their cost (1 and 2), each request's spread evenly from first to last token."""
    total = 0.0
    for each in served:
        if each.arrival.tenant == tenant:
            overlap = min(until_s, each.end_s) - max(since_s, each.first_token_s)
            cost = each.arrival.prompt_tokens + 2 * each.arrival.output_tokens
            total += cost * max(0.0, overlap) / max(1e-9, each.end_s - each.first_token_s)
    return total


def rate(served: Sequence[Served], tenant: str, since_s: float, until_s: float) -> float:
    return service(served, tenant, since_s, until_s) / (until_s - since_s)


def gaps(served: Sequence[Served], one: str, other: str, until_s: float) -> list[float]:
    """How far the two are apart in service since the beginning, at 20 moments."""
    moments = [until_s * number / POINTS for number in range(1, POINTS + 1)]
    return [abs(service(served, one, 0, at) - service(served, other, 0, at)) for at in moments]


def mean_ttft(served: Sequence[Served], *tenants: str) -> float:
    return fmean(each.ttft_s for each in served if each.arrival.tenant in tenants)
