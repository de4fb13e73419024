"""What a generation's lease says: who may append to its log.

    inc_a/0             replica inc_a runs it, in its first turn
    suspended:inc_a/0   inc_a has taken it out of its engine, to go on later
    closed:…            it has ended
    (no lease)          it waits in a queue

The turn counts how often it was put back into its queue. So a replica that was taken for dead, and
takes the same generation again, can't write for its earlier turn.
"""

from __future__ import annotations

SUSPENDED = "suspended:"
CLOSED = "closed:"


def holder(incarnation: str, turn: int) -> str:
    return f"{incarnation}/{turn}"


def runs_at(lease: bytes | None) -> str | None:
    """The incarnation that runs it; None if none does."""
    says = (lease or b"").decode()
    if not says or says.startswith((SUSPENDED, CLOSED)):
        return None
    return says.partition("/")[0]
