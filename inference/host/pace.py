"""How fast a replica makes tokens, from what its counter says at each heartbeat.

Pure, with the caller's clock.
"""

from __future__ import annotations

from collections import deque

# Long enough to smooth single steps, short enough to be called now.
WINDOW_S = 2.0


class Pace:
    """span_s: how long each span is that `span_ended` tells the rate of"""

    def __init__(self, *, span_s: float) -> None:
        self._span_s = span_s
        # (seconds, tokens so far), the oldest at least WINDOW_S old where there is one
        self._marks: deque[tuple[float, int]] = deque()
        self._span: tuple[float, int] | None = None

    def beat(self, tokens: int, *, now: float) -> float:
        """Tokens a second lately. tokens: made since the start; now: seconds that only grow."""
        self._marks.append((now, tokens))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW_S:
            self._marks.popleft()
        return _rate(self._marks[0], (now, tokens))

    def span_ended(self, tokens: int, *, now: float) -> float | None:
        """The rate of the span that ends here, None while it goes on."""
        self._span = self._span or (now, tokens)
        if now - self._span[0] < self._span_s:
            return None
        rate, self._span = _rate(self._span, (now, tokens)), (now, tokens)
        return rate


def _rate(before: tuple[float, int], after: tuple[float, int]) -> float:
    seconds = after[0] - before[0]
    return (after[1] - before[1]) / seconds if seconds > 0 else 0.0
