"""How long a replica's steps take and how many requests may share one, by what was delivered.

Pure policy with the caller's clock. The times between tokens are looked at in spans of about forty
steps: how many requests were decoding (Little, Operations Research 9, 1961) and the p95. A line
through the spans, p95 = base + slope x running, says how many may run for a p95 that is wanted; it
is fitted by least squares with exponential forgetting, and leans on its last slope where the load
has been the same for long, or noise would turn it (Ljung, System Identification, 1999, chapter 11).
How far the line is believed grows as TCP's window does: at most twice what ran lately (RFC 5681,
RFC 7661).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

LEVEL = 0.95
# Two steps of forty are beyond the p95: one that is out of the way, as for a long prompt or a
# compilation, says nothing.
STEPS, SHORTEST_S = 40, 0.5
# Of what the spans before it weigh, the next one leaves so much; more for the slope, which is the
# engine's, than for the height, which what else the machine does changes as well.
KEPT, SLOPE_KEPT = 0.8, 0.9
# As if the last slope were known from a spread of so many requests around their mean.
LEAN = 2.0
# A slope that nothing confirms is forgotten, so that one more is tried now and then.
CURIOSITY = 0.97
# A span may say so many times as much as the line did, or as little.
MOST_SURPRISE = 2.0
FIRST = 8
GROWTH, FADE = 2.0, 0.98
# What is aimed at, of what is wanted: spans lie on both sides of the line.
AIM = 0.95


@dataclass(frozen=True, slots=True)
class Span:
    """running: on average while any request was decoding; p95_s, mean_s: between their tokens"""

    running: float
    p95_s: float
    mean_s: float


@dataclass(slots=True)
class Spans:
    """Times between tokens, until there are enough for a span."""

    _gaps: list[float] = field(default_factory=list)
    _sum_s: float = 0.0
    _busy_s: float = 0.0
    _last: float = -math.inf

    def add(self, gap_s: float, *, now: float) -> Span | None:
        """gap_s: between two tokens of one request, the second having come just now. The span that
        is complete with it, if one is.
        """
        if gap_s <= 0 or now < self._last:
            # A clock that was set says nothing of what came before.
            self._begin(now)
            return None
        span = self._ended() if now > self._last else None
        self._gaps.append(gap_s)
        self._sum_s += gap_s
        # While nothing was decoding, no time between tokens passed.
        self._busy_s += min(gap_s, max(0.0, now - self._last))
        self._last = now
        return span

    def _ended(self) -> Span | None:
        """Between two steps: all that one delivers belongs together."""
        count = len(self._gaps)
        if self._busy_s < SHORTEST_S or count * self._busy_s < (STEPS - 0.5) * self._sum_s:
            return None
        ordered = sorted(self._gaps)
        running, mean_s = self._sum_s / self._busy_s, self._sum_s / count
        span = Span(running, ordered[math.ceil(LEVEL * count) - 1], mean_s)
        self._begin(self._last)
        return span

    def _begin(self, now: float) -> None:
        self._gaps.clear()
        self._sum_s = self._busy_s = 0.0
        self._last = now


@dataclass(slots=True)
class StepTime:
    """The line: p95 = base_s + slope_s x running.

    believed: how many it says something of; usual: what the mean is of the p95
    _weight and the rest: sums over spans, the later ones weighing more
    """

    slope_s: float = 0.0
    believed: float = FIRST / GROWTH
    usual: float = 1.0
    _weight: float = 0.0
    _running: float = 0.0
    _p95_s: float = 0.0
    _squares: float = 0.0
    _products: float = 0.0

    @property
    def is_known(self) -> bool:
        return self._weight > 0

    def learn(self, span: Span, *, full: bool = False) -> None:
        """full: no more were allowed; then what is believed of more is worth trying."""
        p95_s = self._plausible(span)
        if not self.is_known:
            # Nothing else is known: as if all of it were the requests'.
            self.slope_s = p95_s / span.running
        self._weight = KEPT * self._weight + 1
        share = 1 / self._weight
        running, seconds = span.running - self._running, p95_s - self._p95_s
        self._running += share * running
        self._p95_s += share * seconds
        # Around the mean, as it moves (West, Communications of the ACM 22, 1979).
        self._squares = SLOPE_KEPT * self._squares + (1 - share) * running**2
        self._products = SLOPE_KEPT * self._products + (1 - share) * running * seconds
        lean = LEAN**2
        leant_on = self.slope_s * (CURIOSITY if full else 1.0)
        slope_s = (self._products + lean * leant_on) / (self._squares + lean)
        self.slope_s = max(0.0, slope_s)
        self.usual += share * (min(1.0, span.mean_s / span.p95_s) - self.usual)
        self.believed = max(span.running, FADE * self.believed, FIRST / GROWTH)

    def _plausible(self, span: Span) -> float:
        foreseen = self.p95_s(span.running)
        if not foreseen:
            return span.p95_s
        return min(MOST_SURPRISE * foreseen, max(foreseen / MOST_SURPRISE, span.p95_s))

    def p95_s(self, running: float) -> float:
        """Between tokens, if so many run."""
        return max(0.0, self._p95_s + self.slope_s * (running - self._running))

    def tokens_per_s(self, running: int) -> float:
        """Of so many together."""
        seconds = self.usual * self.p95_s(running)
        return running / seconds if seconds else 0.0

    def most(self, objective_s: float, *, slots: int) -> int:
        """How many may run so that the p95 is within the objective: 1 to `slots`."""
        most = min(float(slots), GROWTH * self.believed)
        if self.is_known:
            room_s = AIM * objective_s - self._p95_s
            if room_s < self.slope_s * (most - self._running):
                most = self._running + room_s / self.slope_s if self.slope_s else 1.0
        # A line through exact figures misses a whole number by rounding.
        return max(1, min(slots, math.floor(most + 1e-6)))
