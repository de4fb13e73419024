from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection

from kernel.errors import BadRequest, NotFound
from streaming.models import Conversation, Message
from streaming.services import conversations
from tenants import scope
from tenants.principal import Principal
from tests.tenants.worlds import NOW, World, world

LATER = NOW + timedelta(hours=1)


def principal(where: World, user: User) -> Principal:
    return Principal(where.tenant.pk, "user", str(user.pk))


def started(who: Principal, text: str = "What is a delta?") -> str:
    return str(conversations.start(principal=who, text=text, now=NOW).pk)


def answered(
    who: Principal, conversation_id: str, text: str, *, reason: str = "stop", name: str = "gen_1"
) -> bool:
    return conversations.record_answer(
        tenant_id=who.tenant_id,
        conversation_id=conversation_id,
        generation_id=name,
        text=text,
        finish_reason=reason,
        now=LATER,
    )


def test_a_conversation_is_begun_answered_and_continued(acme: World) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    assert answered(me, chat, "Where a river meets the sea.")
    conversations.add_user_message(principal=me, conversation_id=chat, text="Why?", now=LATER)

    assert conversations.history(principal=me, conversation_id=chat) == [
        ("user", "What is a delta?"),
        ("assistant", "Where a river meets the sea."),
        ("user", "Why?"),
    ]
    assert [each.pk for each in conversations.recent(principal=me, limit=5)] == [chat]


def test_the_latest_used_conversation_comes_first(acme: World) -> None:
    me = principal(acme, acme.member)
    first, second = started(me, "one"), started(me, "two")
    conversations.add_user_message(principal=me, conversation_id=first, text="more", now=LATER)

    assert [each.pk for each in conversations.recent(principal=me, limit=5)] == [first, second]
    assert [each.pk for each in conversations.recent(principal=me, limit=1)] == [first]


VERBS: dict[str, Callable[[Principal, str], object]] = {
    "read": lambda who, chat: conversations.read(principal=who, conversation_id=chat),
    "history": lambda who, chat: conversations.history(principal=who, conversation_id=chat),
    "add": lambda who, chat: conversations.add_user_message(
        principal=who, conversation_id=chat, text="hi", now=NOW
    ),
    "rename": lambda who, chat: conversations.rename(
        principal=who, conversation_id=chat, title="mine", now=NOW
    ),
    "delete": lambda who, chat: conversations.delete(principal=who, conversation_id=chat, now=NOW),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_conversation_of_others_is_as_good_as_absent(
    acme: World, globex: World, verb: str
) -> None:
    chat = started(principal(acme, acme.member))
    strangers = [
        principal(acme, acme.owner),
        principal(globex, globex.member),
        principal(globex, acme.member),
        Principal(acme.tenant.pk, "service_account", acme.account.pk),
    ]
    for stranger in strangers:
        with pytest.raises(NotFound) as refusal:
            VERBS[verb](stranger, chat)
        assert refusal.value.code == "conversation_not_found"
    with pytest.raises(NotFound):
        VERBS[verb](principal(acme, acme.member), "cnv_\x00")

    transcript = conversations.read(principal=principal(acme, acme.member), conversation_id=chat)
    assert transcript.conversation.title == "What is a delta?"
    assert len(transcript.messages) == 1
    assert conversations.recent(principal=strangers[0], limit=5) == []


@pytest.mark.parametrize("text", ["", " \n\t", "nul \x00", "half \ud83d"])
def test_texts_that_say_nothing_or_cannot_be_stored_are_refused(acme: World, text: str) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    with pytest.raises(BadRequest):
        conversations.start(principal=me, text=text, now=NOW)
    with pytest.raises(BadRequest):
        conversations.add_user_message(principal=me, conversation_id=chat, text=text, now=NOW)
    assert conversations.history(principal=me, conversation_id=chat) == [
        ("user", "What is a delta?")
    ]


@pytest.mark.parametrize("reason", [None, "error", "cancelled"])
def test_an_unanswered_question_asked_again_is_said_once(acme: World, reason: str | None) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    if reason:
        assert answered(me, chat, "Half an ans", reason=reason)
    conversations.add_user_message(
        principal=me, conversation_id=chat, text="What is a delta?", now=LATER
    )
    assert conversations.history(principal=me, conversation_id=chat) == [
        ("user", "What is a delta?")
    ]


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_an_answered_question_asked_again_is_said_again(acme: World, reason: str) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    answered(me, chat, "Sand.", reason=reason)
    conversations.add_user_message(
        principal=me, conversation_id=chat, text="What is a delta?", now=LATER
    )
    assert len(conversations.history(principal=me, conversation_id=chat)) == 3


def test_an_unfinished_answer_stays_when_something_else_is_asked(acme: World) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    answered(me, chat, "Half an ans", reason="cancelled")
    conversations.add_user_message(principal=me, conversation_id=chat, text="Shorter", now=LATER)
    assert len(conversations.history(principal=me, conversation_id=chat)) == 3


def test_an_answer_told_twice_is_kept_once(acme: World) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    assert answered(me, chat, "first")
    assert answered(me, chat, "second")
    assert [text for _, text in conversations.history(principal=me, conversation_id=chat)] == [
        "What is a delta?",
        "first",
    ]


@pytest.mark.django_db(transaction=True)
def test_an_answer_told_twice_at_once_is_kept_once() -> None:
    acme = world("acme")
    me = principal(acme, acme.member)
    chat = started(me)
    together = threading.Barrier(4)
    outcomes: list[bool | Exception] = []

    def tell() -> None:
        together.wait()
        try:
            outcomes.append(answered(me, chat, "Sand."))
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            outcomes.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes == [True] * 4
    assert len(conversations.history(principal=me, conversation_id=chat)) == 2


def test_the_answer_to_a_deleted_conversation_is_dropped_quietly(
    acme: World, globex: World
) -> None:
    me = principal(acme, acme.member)
    chat, kept = started(me), started(me)
    conversations.delete(principal=me, conversation_id=chat, now=LATER)

    assert not answered(me, chat, "Sand.")
    assert not answered(principal(globex, globex.member), kept, "Not yours.")
    with scope.whole_platform():
        assert [each.pk for each in Conversation.objects.all()] == [kept]
        assert Message.objects.count() == 1


def test_an_answer_with_characters_that_cannot_be_stored_is_kept_without_them(
    acme: World,
) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    assert answered(me, chat, "a\x00b\ud83dc")
    assert conversations.history(principal=me, conversation_id=chat)[-1] == (
        "assistant",
        "a\ufffdb\ufffdc",
    )


def test_an_answer_that_says_nothing_is_shown_but_not_told_to_the_model(acme: World) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    answered(me, chat, "", reason="error")
    assert len(conversations.read(principal=me, conversation_id=chat).messages) == 2
    assert len(conversations.history(principal=me, conversation_id=chat)) == 1


def test_a_title_is_given_trimmed_and_bounded(acme: World) -> None:
    me = principal(acme, acme.member)
    chat = started(me)
    renamed = conversations.rename(
        principal=me, conversation_id=chat, title="  Deltas \n and fans ", now=LATER
    )
    assert renamed.title == "Deltas and fans"
    for bad in ("", "   ", "x" * 121, "nul \x00"):
        with pytest.raises(BadRequest):
            conversations.rename(principal=me, conversation_id=chat, title=bad, now=LATER)
    transcript = conversations.read(principal=me, conversation_id=chat)
    assert transcript.conversation.title == "Deltas and fans"
    assert transcript.conversation.updated_at == NOW


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("  two\n\nlines ", "two lines"),
        ("word " * 30, ("word " * 12).strip() + "…"),
        ("x" * 300, "x" * 59 + "…"),
        ("İstanbul'da nehir var mı?", "İstanbul'da nehir var mı?"),
    ],
)
def test_a_title_is_the_first_words(text: str, title: str) -> None:
    assert conversations.title_of(text) == title
    assert len(title) <= conversations.TITLE_LENGTH + 1
