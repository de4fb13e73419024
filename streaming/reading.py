"""Where a reader is in an answer, and when the replica that makes it has to be told.

Positions are told in steps worth a message, and now and then even if nothing has moved: that a
reader is there is itself what the replica has to know. A reader that was given something and has
not read on for the detach grace is as good as away.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.messages import Reading

# A reader that doesn't move is told to be there at least this often.
PRESENCE_S = 5.0


@dataclass(slots=True)
class Reader:
    """high_water_tokens: how many tokens may be on their way to the client
    given, consumed: tokens handed to its transport, and read as far as that can tell
    moved_at: when it last read on, in seconds of the event loop's clock
    """

    high_water_tokens: int
    moved_at: float
    given: int = 0
    consumed: int = 0

    @property
    def has_room(self) -> bool:
        return self.given - self.consumed < self.high_water_tokens

    def was_given(self, seq: int) -> None:
        self.given = max(self.given, seq)

    def has_read(self, seq: int, *, now: float) -> None:
        """Up to `seq`, though not beyond what it was given; nothing is taken back."""
        seq = min(seq, self.given)
        if seq > self.consumed:
            self.consumed, self.moved_at = seq, now

    def is_there(self, *, now: float, grace_s: float) -> bool:
        return self.consumed >= self.given or now - self.moved_at <= grace_s


@dataclass(slots=True)
class Report:
    """What a replica was last told of the readers of one generation. One for each incarnation."""

    seq: int = -1
    at_s: float = float("-inf")

    def due(
        self, generation_id: str, readers: list[Reader], *, process: str, now: float, grace_s: float
    ) -> Reading | None:
        """The message to send now, or None."""
        present = [reader for reader in readers if reader.is_there(now=now, grace_s=grace_s)]
        if not present:
            return None
        furthest = max(present, key=lambda reader: reader.consumed)
        moved = furthest.consumed - self.seq >= max(1, furthest.high_water_tokens // 8)
        if not moved and now - self.at_s < min(PRESENCE_S, grace_s / 4):
            return None
        self.seq, self.at_s = furthest.consumed, now
        return Reading(generation_id, process, furthest.consumed, furthest.high_water_tokens)
