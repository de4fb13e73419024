from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from inference.models import Checkpoint, EngineKind, Generation, Release, Route, State
from streaming.services import conversations
from streaming.services.running import RunningAnswer, running_answers
from tenants import scope
from tenants.principal import Principal
from tests.tenants.worlds import NOW, World


def principal_of(where: World, user: User) -> Principal:
    return Principal(where.tenant.pk, "user", str(user.pk))


@pytest.fixture
def route(db: None) -> Route:
    release = Release.objects.create(name="small", engine=EngineKind.FAKE, context_tokens=512)
    return Route.objects.create(name="small", release=release)


def chat_of(where: World, user: User, text: str = "What is a delta?") -> str:
    return conversations.start(principal=principal_of(where, user), text=text, now=NOW).id


def answering(
    where: World, user: User, route: Route, chat: str, state: State = State.OPEN
) -> Generation:
    settled = None if state in (State.OPEN, State.SUSPENDED) else NOW
    with scope.tenant(where.tenant.pk):
        made: Generation = Generation.objects.create(
            tenant_id=where.tenant.pk,
            principal=principal_of(where, user).name,
            conversation_id=chat,
            route=route,
            release=route.release,
            state=state,
            prompt_tokens=3,
            created_at=NOW,
            settled_at=settled,
        )
        if state is State.SUSPENDED:
            Checkpoint.objects.create(
                tenant_id=where.tenant.pk,
                generation_id=made.id,
                request=b"",
                seq=3,
                size_bytes=0,
                created_at=NOW,
                expires_at=NOW + timedelta(days=1),
            )
    return made


def page_of(user: User, address: str) -> str:
    client = Client()
    client.force_login(user)
    return client.get(address).content.decode()


def test_ones_own_answers_that_have_not_ended(acme: World, globex: World, route: Route) -> None:
    chats = [chat_of(acme, acme.member) for _ in range(3)]
    running = answering(acme, acme.member, route, chats[0])
    suspended = answering(acme, acme.member, route, chats[1], State.SUSPENDED)
    for state in (State.FINISHED, State.CANCELLED, State.FAILED):
        answering(acme, acme.member, route, chats[2], state)
    answering(acme, acme.owner, route, chat_of(acme, acme.owner))
    answering(globex, globex.member, route, chat_of(globex, globex.member))
    assert running_answers(principal_of(acme, acme.member)) == {
        chats[0]: RunningAnswer(chats[0], running.id, "open"),
        chats[1]: RunningAnswer(chats[1], suspended.id, "suspended"),
    }


@pytest.mark.parametrize("state", [State.OPEN, State.SUSPENDED])
def test_the_page_goes_on_with_the_answer_in_the_making(
    acme: World, route: Route, state: State
) -> None:
    chat = chat_of(acme, acme.member)
    made = answering(acme, acme.member, route, chat, state)
    page = page_of(acme.member, reverse("conversation", args=[chat]))
    assert f'data-generation="{made.id}" data-state="resuming"' in page
    assert f'data-conversation="{chat}" data-answer="{state}"' in page
    assert page.count('data-state="resuming"') == 1
    elsewhere = page_of(acme.member, reverse("chat"))
    assert 'data-state="resuming"' not in elsewhere
    assert f'data-conversation="{chat}" data-answer="{state}"' in elsewhere


def test_an_answer_that_is_kept_already_is_shown_once(acme: World, route: Route) -> None:
    chat = chat_of(acme, acme.member)
    made = answering(acme, acme.member, route, chat)
    # It ended between two looks at the database.
    conversations.record_answer(
        tenant_id=acme.tenant.pk,
        conversation_id=chat,
        generation_id=made.id,
        text="Where a river ends.",
        finish_reason="stop",
        now=NOW,
    )
    page = page_of(acme.member, reverse("conversation", args=[chat]))
    assert f'data-generation="{made.id}" data-state="finished"' in page
    assert 'data-state="resuming"' not in page


def test_the_sidebar_asks_what_is_being_answered(acme: World, globex: World, route: Route) -> None:
    chat = chat_of(acme, acme.member)
    answering(acme, acme.member, route, chat)
    answering(globex, globex.member, route, chat_of(globex, globex.member))
    client = Client()
    address = reverse("running_answers")
    assert client.get(address).status_code == 302
    client.force_login(acme.member)
    response = client.get(address)
    assert response.json() == {"running": {chat: "open"}}
    assert "no-store" in response["Cache-Control"]
    assert client.post(address).status_code == 405
