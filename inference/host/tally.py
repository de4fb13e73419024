"""What a host counts of its generations."""

from __future__ import annotations

from collections import deque

from inference import metrics
from inference.claiming import Match
from inference.engine.protocol import Delta
from inference.messages import Failed, Final, QueuedRequest, Suspended


class Tally:
    """deltas, output_tokens: what the engine has given
    holds: times that a generation waited for credit; yields: for a slot that it had given to a
    higher class; restores: generations begun after their tokens
    takeovers: generations of lost replicas that were dealt with
    """

    def __init__(self, release_name: str) -> None:
        self._release = release_name
        self._held = metrics.HOLDS.labels(release_name, "credit")
        self._yielded = metrics.HOLDS.labels(release_name, "class")
        self._gaps = metrics.Gathered(
            metrics.INTER_TOKEN.labels(release_name), metrics.STEP_SECONDS
        )
        self._counted_tokens = 0
        self._lengths: deque[int] = deque(maxlen=1000)
        self.output_tokens = 0
        self.deltas = 0
        self.holds = 0
        self.yields = 0
        self.restores = 0
        self.takeovers = 0

    def told(self) -> dict[str, int]:
        """What the replica's record says of it, all since its start."""
        return {
            "holds": self.holds,
            "yields": self.yields,
            "restores": self.restores,
            "takeovers": self.takeovers,
        }

    def started(self, request: QueuedRequest, *, now_s: float) -> None:
        """now_s: Unix seconds. One that has run before hasn't waited since its admission."""
        if request.turn:
            return
        waited_s = max(0.0, now_s - request.admitted_at)
        metrics.QUEUE_TIME.labels(self._release, request.priority_class).observe(waited_s)

    def claimed(self, match: Match) -> None:
        metrics.PREFIX_CLAIMS.labels(self._release, match).inc()

    def prefilled(self, request: QueuedRequest, cached_tokens: int) -> None:
        """One that goes on has had its prompt counted for its tenant."""
        prompt_tokens = len(request.engine_request.prompt_token_ids)
        metrics.PREFIX_QUERIES.labels(self._release).inc(prompt_tokens)
        metrics.PREFIX_HITS.labels(self._release).inc(cached_tokens)
        if request.progress is None:
            metrics.tenant_tokens(self._release, request, "input").inc(prompt_tokens)
            metrics.tenant_tokens(self._release, request, "cached_input").inc(cached_tokens)

    def came_after(self, seconds: float, tokens: int) -> None:
        """So many tokens came together, so long after those before them."""
        for _ in range(tokens):
            self._gaps.observe(seconds / tokens)

    def restored(self) -> None:
        self.restores += 1
        metrics.RESTORES.labels(self._release).inc()

    def took(self, delta: Delta) -> None:
        self.deltas += 1
        self.output_tokens += len(delta.token_ids)

    def held(self) -> None:
        self.holds += 1
        self._held.inc()

    def yielded(self, times: int) -> None:
        """times: since the engine's start"""
        self._yielded.inc(times - self.yields)
        self.yields = times

    def ended(self, end: Suspended | Final | None, *, took_s: float, tokens: int) -> None:
        """tokens: of the whole answer so far"""
        how: str
        if end is None:
            how = "log_lost"
        elif isinstance(end, Suspended):
            how = end.reason
        else:
            self._lengths.append(tokens)
            how = end.code if isinstance(end, Failed) else end.finish_reason
        metrics.ENDED.labels(self._release, how).inc()
        metrics.EXECUTION_TIME.labels(self._release).observe(took_s)

    def publish(self) -> None:
        """Bring the metric up to date: a counter in a file is too slow for every delta."""
        made = metrics.OUTPUT_TOKENS.labels(self._release)
        made.inc(self.output_tokens - self._counted_tokens)
        self._counted_tokens = self.output_tokens
        self._gaps.publish()

    def lengths(self) -> list[int]:
        """Tokens of the answers that have ended since the last call."""
        lengths = list(self._lengths)
        self._lengths.clear()
        return lengths
