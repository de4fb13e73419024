"""The one seam where a generation ends: exactly once, from the token log's count, whoever is still
listening.

Later parts (ledger, conversations) hang themselves in with `on_settled`; they run inside the same
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference.messages import Failed, Final
from inference.models import Checkpoint, Generation, State
from kernel.database import writing
from tenants import scope


@dataclass(frozen=True, slots=True)
class Outcome:
    """text: the whole answer as far as it came; final: the log's last entry."""

    tenant_id: str
    generation_id: str
    text: str
    final: Final

    @property
    def entry(self) -> Final:
        return self.final


Listener = Callable[[Generation, Outcome], None]
UNSETTLED = (State.OPEN, State.SUSPENDED)
_listeners: list[Listener] = []


def on_settled(listener: Listener) -> None:
    """Have `listener` called with every generation that is settled, inside the transaction that
    settles it.
    """
    _listeners.append(listener)


def settle(outcome: Outcome, *, now: datetime) -> bool:
    """Close the generation's record. False if it was closed before, or never was: then nothing has
    changed.
    """
    return settle_all([(outcome, now)])[0]


def settle_all(ended: Sequence[tuple[Outcome, datetime]]) -> list[bool]:
    """The same for several, each with when it ended, in one transaction."""
    # All in one order, so that two who settle the same can't wait for each other.
    in_order = sorted(ended, key=lambda one: one[0].generation_id)
    with scope.whole_platform(), writing():
        closed = {
            outcome.generation_id: outcome for outcome, now in in_order if _close(outcome, now)
        }
        Checkpoint.objects.filter(generation_id__in=closed).delete()
        generations = Generation.objects.in_bulk(closed)
        for generation_id, outcome in closed.items():
            _tell(generations[generation_id], outcome)
    return [closed.get(outcome.generation_id) is outcome for outcome, _ in ended]


def _close(outcome: Outcome, now: datetime) -> bool:
    final = outcome.final
    with scope.tenant(outcome.tenant_id):
        unsettled = Generation.objects.filter(id=outcome.generation_id, state__in=UNSETTLED)
        updated = unsettled.update(
            state=_state(final),
            finish_reason="" if isinstance(final, Failed) else final.finish_reason,
            error_code=final.code if isinstance(final, Failed) else "",
            cached_tokens=final.usage.cached_tokens,
            output_tokens=final.usage.output_tokens,
            settled_at=now,
        )
    return bool(updated)


def _tell(generation: Generation, outcome: Outcome) -> None:
    with scope.tenant(outcome.tenant_id):
        for listener in _listeners:
            listener(generation, outcome)


def _state(final: Final) -> State:
    if isinstance(final, Failed):
        return State.FAILED
    return State.CANCELLED if final.finish_reason == "cancelled" else State.FINISHED
