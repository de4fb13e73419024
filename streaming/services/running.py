"""Which of a person's answers are in the making, or wait for their reader to come back."""

from __future__ import annotations

from dataclasses import dataclass

from inference.models import Checkpoint, Generation, State
from tenants import scope
from tenants.principal import Principal

# Far more than one person has at a time; the newest are told.
MOST = 200


@dataclass(frozen=True, slots=True)
class RunningAnswer:
    """state: "open", or "suspended" until it is read again"""

    conversation_id: str
    generation_id: str
    state: str


def running_answers(principal: Principal) -> dict[str, RunningAnswer]:
    """The principal's own, by conversation."""
    with scope.tenant(principal.tenant_id):
        mine = Generation.objects.filter(principal=principal.name).exclude(conversation_id="")
        # Apart, so that each has an index: of all that ever ran, few are open or suspended.
        unfinished = [
            mine.filter(state=State.OPEN),
            mine.filter(state=State.SUSPENDED, id__in=Checkpoint.objects.values("generation_id")),
        ]
        found = [
            RunningAnswer(*row)
            for rows in unfinished
            for row in rows.order_by("-created_at").values_list("conversation_id", "id", "state")[
                :MOST
            ]
        ]
    return {each.conversation_id: each for each in reversed(found)}
