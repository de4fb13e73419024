"""Conversations: begun, continued, answered, renamed, deleted, and read, each by its owner alone.

Every verb enters the principal's tenant scope itself, and verbs that write lock the conversation's
row first, so that what happens to one conversation at the same time happens in some order. A
conversation that isn't the principal's is as good as absent: NotFound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from kernel.database import writing
from kernel.errors import BadRequest, NotFound
from streaming.models import Author, Conversation, Message
from tenants import scope
from tenants.principal import Principal

TITLE_LENGTH = 60
TITLE_MAX_LENGTH = 120
# Characters that PostgreSQL's text cannot hold: refused from people, replaced in a model's answer.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Answers that were not finished: asking the same again replaces them.
UNFINISHED = ("error", "cancelled")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation with its messages, oldest first."""

    conversation: Conversation
    messages: list[Message]


def start(*, principal: Principal, text: str, now: datetime) -> Conversation:
    """Begin a conversation with the person's first message; its title is the first words of `text`.

    Raises BadRequest for an empty or unstorable text, NotFound for a principal that isn't a person.
    """
    _check(text)
    with scope.tenant(principal.tenant_id), writing():
        conversation: Conversation = Conversation.objects.create(
            tenant_id=principal.tenant_id,
            user_id=_person(principal),
            title=title_of(text),
            created_at=now,
            updated_at=now,
        )
        _say(conversation, text, now)
    return conversation


def add_user_message(
    *, principal: Principal, conversation_id: str, text: str, now: datetime
) -> Conversation:
    """Continue a conversation. The last question asked again, while it has no finished answer,
    takes the place of the first asking: a retry is not said twice.

    Raises NotFound for a conversation that isn't the principal's, BadRequest for an empty or
    unstorable text.
    """
    _check(text)
    with scope.tenant(principal.tenant_id), writing():
        conversation = _locked(principal, conversation_id)
        if not _drop_unfinished_answer(conversation, text):
            _say(conversation, text, now)
        conversation.updated_at = now
        conversation.save(update_fields=["updated_at"])
    return conversation


def history(*, principal: Principal, conversation_id: str) -> list[tuple[str, str]]:
    """(role, text) of every turn that says something, oldest first; role is "user" or "assistant".

    Raises NotFound for a conversation that isn't the principal's.
    """
    transcript = read(principal=principal, conversation_id=conversation_id)
    return [(message.author, message.text) for message in transcript.messages if message.text]


def record_answer(
    *,
    tenant_id: str,
    conversation_id: str,
    generation_id: str,
    text: str,
    finish_reason: str,
    now: datetime,
) -> bool:
    """Keep a generation's answer, once however often it is told.

    False, and nothing kept, if the conversation has been deleted meanwhile.
    """
    with scope.tenant(tenant_id), writing():
        conversation = Conversation.objects.select_for_update().filter(id=conversation_id).first()
        if conversation is None:
            return False
        if not Message.objects.filter(generation_id=generation_id).exists():
            Message.objects.create(
                tenant_id=tenant_id,
                conversation=conversation,
                author=Author.ASSISTANT,
                text=UNSTORABLE.sub("\ufffd", text),
                generation_id=generation_id,
                finish_reason=finish_reason,
                created_at=now,
            )
            Conversation.objects.filter(id=conversation_id).update(updated_at=now)
        return True


def rename(
    *, principal: Principal, conversation_id: str, title: str, now: datetime
) -> Conversation:
    """Give a conversation another title, without moving it in the list.

    Raises NotFound for a conversation that isn't the principal's, BadRequest for an empty or too
    long title.
    """
    title = " ".join(title.split())
    if not title or len(title) > TITLE_MAX_LENGTH or UNSTORABLE.search(title):
        message = _("A title has 1 to {length} characters.").format(length=TITLE_MAX_LENGTH)
        raise BadRequest(message, param="title")
    with scope.tenant(principal.tenant_id), writing():
        conversation = _locked(principal, conversation_id)
        conversation.title = title
        conversation.save(update_fields=["title"])
    return conversation


def delete(*, principal: Principal, conversation_id: str, now: datetime) -> None:
    """Delete a conversation and its messages for good.

    Raises NotFound for a conversation that isn't the principal's.
    """
    with scope.tenant(principal.tenant_id), writing():
        _locked(principal, conversation_id).delete()


def read(*, principal: Principal, conversation_id: str) -> Transcript:
    """A conversation and its messages. Raises NotFound for one that isn't the principal's."""
    with scope.tenant(principal.tenant_id):
        conversation = _owned(principal, conversation_id, Conversation.objects.all())
        return Transcript(conversation, list(Message.objects.filter(conversation=conversation)))


def recent(*, principal: Principal, limit: int) -> list[Conversation]:
    """The person's conversations, the latest used first, at most `limit` of them."""
    with scope.tenant(principal.tenant_id):
        mine = Conversation.objects.filter(user_id=_person(principal))
        return list(mine.order_by("-updated_at", "-id")[:limit])


def title_of(text: str) -> str:
    """The first words of a text, on one line, at most TITLE_LENGTH characters."""
    words = " ".join(text.split())
    if len(words) <= TITLE_LENGTH:
        return words
    head = words[:TITLE_LENGTH]
    at_a_word, _space, _rest = head.rpartition(" ")
    return (at_a_word or head[:-1]) + "…"


def _person(principal: Principal) -> int:
    if principal.kind != "user":
        raise _not_found()
    return int(principal.id)


def _locked(principal: Principal, conversation_id: str) -> Conversation:
    return _owned(principal, conversation_id, Conversation.objects.select_for_update())


def _owned(
    principal: Principal, conversation_id: str, rows: QuerySet[Conversation]
) -> Conversation:
    if UNSTORABLE.search(conversation_id):
        raise _not_found()
    conversation = rows.filter(id=conversation_id, user_id=_person(principal)).first()
    if conversation is None:
        raise _not_found()
    return conversation


def _not_found() -> NotFound:
    return NotFound(_("There is no such conversation."), code="conversation_not_found")


def _check(text: str) -> None:
    if not text.strip():
        raise BadRequest(_("A message cannot be empty."), param="text")
    if UNSTORABLE.search(text):
        raise BadRequest(_("The message holds characters that cannot be stored."), param="text")


def _say(conversation: Conversation, text: str, now: datetime) -> None:
    Message.objects.create(
        tenant_id=conversation.tenant_id,
        conversation=conversation,
        author=Author.USER,
        text=text,
        created_at=now,
    )


def _drop_unfinished_answer(conversation: Conversation, text: str) -> bool:
    """Whether `text` is the conversation's last question and still unanswered.

    An unfinished answer to it is deleted.
    """
    last = list(Message.objects.filter(conversation=conversation).order_by("-id")[:2])
    answer = last.pop(0) if last and last[0].author == Author.ASSISTANT else None
    if not last or last[0].author != Author.USER or last[0].text != text:
        return False
    if answer is None:
        return True
    if answer.finish_reason not in UNFINISHED:
        return False
    answer.delete()
    return True
