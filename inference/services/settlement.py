"""The one seam where a generation ends: exactly once, from the token log's count, whoever is still
listening.

Later parts (ledger, conversations) hang themselves in with `on_settled`; they run inside the same
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
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
    with scope.tenant(outcome.tenant_id), writing():
        closed = Generation.objects.filter(id=outcome.generation_id, state__in=UNSETTLED).update(
            state=_state(outcome.final),
            finish_reason="" if isinstance(outcome.final, Failed) else outcome.final.finish_reason,
            error_code=outcome.final.code if isinstance(outcome.final, Failed) else "",
            cached_tokens=outcome.final.usage.cached_tokens,
            output_tokens=outcome.final.usage.output_tokens,
            settled_at=now,
        )
        Checkpoint.objects.filter(generation_id=outcome.generation_id).delete()
        if closed:
            generation = Generation.objects.get(id=outcome.generation_id)
            for listener in _listeners:
                listener(generation, outcome)
    return bool(closed)


def _state(final: Final) -> State:
    if isinstance(final, Failed):
        return State.FAILED
    return State.CANCELLED if final.finish_reason == "cancelled" else State.FINISHED
