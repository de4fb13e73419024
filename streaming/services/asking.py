"""Ask in a conversation: say it, then have it answered with what was said before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from inference.engine.chat_template import Message
from inference.engine.protocol import Sampling
from inference.models import Generation, State
from inference.pipeline.admission import Admission, Admitted
from inference.services import generations, replays
from inference.services.replays import Identity
from kernel.clock import Clock
from kernel.database import database
from kernel.errors import Conflict, ContextLengthExceeded
from streaming.events import Send
from streaming.models import Conversation
from streaming.services import conversations
from tenants import scope
from tenants.principal import Principal

# What the bundled model's makers advise: at temperature 1 a small model talks nonsense. How many
# tokens is settled at admission.
CHAT_SAMPLING = Sampling(max_tokens=1, temperature=0.2, top_p=0.9)
# An answer is kept when it is settled, milliseconds after its last token; the next question waits
# for that.
SETTLE_POLLS = 20
SETTLE_POLL_S = 0.1


class ConversationBusy(Conflict):
    code = "conversation_busy"
    retryable = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that is being answered, or has been."""

    conversation: Conversation
    admitted: Admitted


async def asked_before(send: Send, principal: Principal, clock: Clock) -> Asked | None:
    """What this very message has begun, if it comes again with its key: its sender could not know
    that it had arrived.
    """
    identity = _identity(send)
    if identity is None:
        return None
    found = await database(_begun, identity, principal, clock)
    if found is None:
        return None
    conversation, generation_id = found
    return Asked(conversation, await generations.find(principal, generation_id))


def _begun(
    identity: Identity, principal: Principal, clock: Clock
) -> tuple[Conversation, str] | None:
    with scope.tenant(principal.tenant_id):
        generation_id = replays.answer_to(identity, principal, now=clock.now())
    if generation_id is None:
        return None
    conversation_id = generations.record_of(principal, generation_id).conversation_id
    transcript = conversations.read(principal=principal, conversation_id=conversation_id)
    return transcript.conversation, generation_id


def _identity(send: Send) -> Identity | None:
    if send.key is None:
        return None
    said = (send.conversation, send.model, send.text)
    return replays.by_key(f"send:{send.key}", msgspec.json.encode(said))


async def say(send: Send, principal: Principal, clock: Clock) -> Conversation:
    """Keep what was said, in its conversation or a new one. Raises PlatformError if refused."""
    if send.conversation is not None:
        await _until_answered(principal, send.conversation)
    return await database(_say, send, principal, clock)


async def ask(
    send: Send, principal: Principal, conversation: Conversation, clock: Clock
) -> Admitted:
    """Have it answered with what was said before. Raises PlatformError; what was said stays."""
    turns = await database(
        conversations.history, principal=principal, conversation_id=conversation.id
    )
    messages = [{"role": role, "content": text} for role, text in turns]
    return await _admit_fitting(send, principal, conversation, messages, clock)


async def _until_answered(principal: Principal, conversation_id: str) -> None:
    for _ in range(SETTLE_POLLS):
        if not await database(_is_open, principal, conversation_id):
            return
        await asyncio.sleep(SETTLE_POLL_S)
    raise ConversationBusy("This conversation is still being answered.")


def _is_open(principal: Principal, conversation_id: str) -> bool:
    with scope.tenant(principal.tenant_id):
        return Generation.objects.filter(
            conversation_id=conversation_id,
            principal=principal.name,
            # A suspended one goes on as soon as it is read again.
            state__in=(State.OPEN, State.SUSPENDED),
        ).exists()


def _say(send: Send, principal: Principal, clock: Clock) -> Conversation:
    now = clock.now()
    if send.conversation is None:
        return conversations.start(principal=principal, text=send.text, now=now)
    return conversations.add_user_message(
        principal=principal, conversation_id=send.conversation, text=send.text, now=now
    )


async def _admit_fitting(
    send: Send,
    principal: Principal,
    conversation: Conversation,
    messages: list[Message],
    clock: Clock,
) -> Admitted:
    """Admit with as much of the conversation as fits the model: the oldest turns are left out, half
    of them at a time.
    """
    while True:
        admission = Admission(
            principal=principal,
            model=send.model,
            messages=messages,
            sampling=CHAT_SAMPLING,
            max_tokens=None,
            now=clock.now(),
            conversation_id=conversation.id,
            high_water_tokens=send.high_water_tokens,
            # A person is waiting before the page.
            priority=principal.highest_priority,
            identity=_identity(send),
        )
        try:
            return await generations.admit(admission, clock)
        except ContextLengthExceeded:
            if len(messages) == 1:
                raise
            messages = messages[(len(messages) + 1) // 2 :]
