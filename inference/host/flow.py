"""Credit: how far a generation may run ahead of its readers, and since when it has none.

Pure policy with the caller's clock. Credit is what the furthest reader has read plus what that
reader's connection may have outstanding; positions only move forward, so messages that are late,
repeated or out of order do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.messages import Detached


@dataclass(slots=True)
class Flow:
    """One generation's credit, in tokens of its answer.

    consumed: how far the furthest reader has read
    high_water_tokens: how many tokens beyond that may be made
    seen_at: when a reader was last heard of, in seconds of the caller's clock
    readers: the web processes that have readers of it
    abandoned: the last of them said that its reader has left
    runs_free: it needs no reader
    """

    high_water_tokens: int
    detached: Detached
    seen_at: float
    consumed: int = 0
    readers: set[str] = field(default_factory=set)
    held: bool = False
    abandoned: bool = False
    runs_free: bool = False

    @property
    def limit(self) -> int:
        return self.consumed + self.high_water_tokens

    def read(self, seq: int, high_water_tokens: int, *, reader: str, now: float) -> None:
        """A reader is there and has read up to `seq`."""
        self.seen_at = now
        self.readers.add(reader)
        self.abandoned = self.runs_free = False
        if seq >= self.consumed:
            self.consumed = seq
            self.high_water_tokens = high_water_tokens

    def left(self, reader: str) -> None:
        """A web process has no reader of it any more."""
        self.readers.discard(reader)
        if not self.readers:
            self.abandoned = True
            self.runs_free = self.detached == "finish"

    def must_hold(self, made: int) -> bool:
        if self.held or self.runs_free:
            return False
        return self.abandoned or made >= self.limit

    def may_go_on(self, made: int) -> bool:
        """Held, and with room again for half the mark: each release is worth its message."""
        if not self.held or self.runs_free:
            return self.held
        worth_while = max(1, self.high_water_tokens // 2)
        return not self.abandoned and self.limit - made >= worth_while

    def is_detached(self, *, now: float, grace_s: float) -> bool:
        return not self.runs_free and now - self.seen_at > grace_s
