"""Credit: how far a generation may run ahead of its reader, and since when it has none.

Pure policy with the caller's clock. Credit is what the furthest reader has read plus what that
reader's connection may have outstanding; positions only move forward, so messages that are late,
repeated or out of order do no harm.

"""

from __future__ import annotations

from dataclasses import dataclass

from inference.messages import Detached


@dataclass(slots=True)
class Flow:
    """One generation's credit, in tokens of its answer.

    consumed: how far the furthest reader has read
    high_water_tokens: how many tokens beyond that may be made
    seen_at: when a reader was last heard of, in seconds of the caller's clock
    """

    high_water_tokens: int
    detached: Detached
    seen_at: float
    consumed: int = 0
    held: bool = False
    runs_free: bool = False

    @property
    def limit(self) -> int:
        return self.consumed + self.high_water_tokens

    def read(self, seq: int, high_water_tokens: int, *, now: float) -> None:
        """A reader is there and has read up to `seq`."""
        self.seen_at = now
        self.runs_free = False
        if seq >= self.consumed:
            self.consumed = seq
            self.high_water_tokens = high_water_tokens

    def must_hold(self, made: int) -> bool:
        return not self.held and not self.runs_free and made >= self.limit

    def may_go_on(self, made: int) -> bool:
        """Held, and with room again for half the mark: each release is worth its message."""
        return self.held and (self.runs_free or self.limit - made >= self._worth_while)

    @property
    def _worth_while(self) -> int:
        return max(1, self.high_water_tokens // 2)

    def is_detached(self, *, now: float, grace_s: float) -> bool:
        return not self.runs_free and now - self.seen_at > grace_s
