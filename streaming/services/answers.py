"""Keep a chat's answers: hung into settlement, so that an answer is kept whoever is still
listening.
"""

from __future__ import annotations

from inference.messages import Failed
from inference.models import Generation
from inference.services.settlement import Outcome
from streaming.services import conversations


def keep_answer(generation: Generation, outcome: Outcome) -> None:
    """Write the assistant's message of a settled generation, if it belongs to a conversation."""
    if not generation.conversation_id:
        return
    final = outcome.final
    conversations.record_answer(
        tenant_id=outcome.tenant_id,
        conversation_id=generation.conversation_id,
        generation_id=generation.id,
        text=outcome.text,
        finish_reason="error" if isinstance(final, Failed) else final.finish_reason,
        now=generation.settled_at or generation.created_at,
    )
