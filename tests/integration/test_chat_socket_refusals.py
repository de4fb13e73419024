from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.ground.seed import PASSWORD
from tests.ground.stack import Stack
from tests.integration.chatting import Event, Socket, chatting


async def still_answers(socket: Socket) -> None:
    accepted = await socket.accepted("still there?", ref="after")
    await socket.stop(accepted["generation"])
    await socket.until("finished", generation=accepted["generation"])


def code(event: Event) -> str:
    assert event["type"] == "error"
    found: str = event["error"]["code"]
    return found


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        '{"type":"subscribe"}',
        "[" * 50_000,
        json.dumps({"type": "send", "ref": "r", "model": "fake", "text": "x" * 1_000_000}),
        b"\x00\x01binary",
        b"{}",
    ],
    ids=lambda frame: repr(frame[:12]),
)
async def test_malformed_frames(stack: Stack, frame: str | bytes) -> None:
    async with chatting(stack) as socket:
        await socket.connection.send(frame)
        assert code((await socket.until("error"))[-1]) == "invalid_request"
        await still_answers(socket)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"model": "unknown"}, "model_not_found"),
        ({"text": "  \n"}, "invalid_request"),
        ({"text": "a\u0000b"}, "invalid_request"),
        ({"text": "word " * 9000}, "context_length_exceeded"),
        ({"conversation": "cnv_unknown"}, "conversation_not_found"),
        ({"conversation": "cnv_\u0000"}, "invalid_request"),
        ({"ref": ""}, "invalid_request"),
    ],
)
async def test_what_cannot_be_answered(stack: Stack, fields: dict[str, str], wanted: str) -> None:
    async with chatting(stack) as socket:
        await socket.say(**({"ref": "mine"} | fields))
        event = (await socket.until("error"))[-1]
        assert code(event) == wanted
        assert event["ref"] == fields.get("ref", "mine")
        await still_answers(socket)


async def test_more_answers_at_once_than_a_socket_may_have(stack: Stack) -> None:
    async with chatting(stack) as socket:
        for number in range(30):
            await socket.say(f"question {number}", ref=str(number))
        refused, accepted = [], []
        while len(refused) + len(accepted) < 30:
            event = (await socket.until("accepted", "error"))[-1]
            (accepted if event["type"] == "accepted" else refused).append(event)
        assert {code(event) for event in refused} == {"too_many_answers"}
        assert len(accepted) == 8
        for event in accepted:
            await socket.stop(event["generation"])
    await asyncio.to_thread(stack.wait_until_idle)


async def test_nobody_is_told_to_sign_in(stack: Stack) -> None:
    for session in (None, "unknown-session"):
        async with chatting(stack, session) as socket:
            assert await socket.close_code() == 4401


async def test_a_person_of_a_tenant_that_was_switched_off(stack: Stack) -> None:
    async with chatting(stack, stack.closed.session) as socket:
        assert await socket.close_code() == 4403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1", "null"]
)
async def test_a_foreign_page(stack: Stack, origin: str) -> None:
    async with chatting(stack, origin=origin) as socket:
        assert await socket.close_code() == 4403


async def test_anothers_conversation_is_as_good_as_none(stack: Stack) -> None:
    async with chatting(stack) as socket:
        accepted = await socket.accepted("mine alone")
        async with chatting(stack, stack.globex.session) as stranger:
            conversation = accepted["conversation"]["id"]
            await stranger.say("what did they say?", conversation=conversation)
            assert code((await stranger.until("error"))[-1]) == "conversation_not_found"
            # Neither does it end what it doesn't receive.
            await stranger.stop(accepted["generation"])
            await still_answers(stranger)
        events = await socket.until("finished")
        assert events[-1]["finish_reason"] == "stop"
    query = "SELECT text FROM streaming_message WHERE conversation_id = :id AND author = 'user'"
    assert stack.store.rows(query, id=conversation) == [{"text": "mine alone"}]


def signed_in(stack: Stack, username: str) -> httpx.Client:
    """A browser's tab, through the sign-in page."""
    tab = httpx.Client(base_url=stack.url, timeout=30, headers={"Origin": stack.url})
    tab.get("/login/")
    form = {
        "username": username,
        "password": PASSWORD,
        "csrfmiddlewaretoken": tab.cookies["csrftoken"],
    }
    assert tab.post("/login/", data=form).status_code == 302
    return tab


async def test_a_session_that_is_ended_elsewhere_closes_a_socket_that_says_nothing(
    stack: Stack,
) -> None:
    tab = await asyncio.to_thread(signed_in, stack, stack.acme.username)
    other = await asyncio.to_thread(signed_in, stack, stack.acme.username)
    async with chatting(stack, tab.cookies["sessionid"]) as socket:
        await still_answers(socket)
        form = {"csrfmiddlewaretoken": other.cookies["csrftoken"], "all_others": "1"}
        ended = await asyncio.to_thread(other.post, "/account/sessions/", data=form)
        assert ended.status_code == 302
        assert await socket.close_code() == 4401
    async with chatting(stack, other.cookies["sessionid"]) as socket:
        await still_answers(socket)


async def test_another_password_closes_a_socket_that_says_nothing(stack: Stack) -> None:
    """However it is set: here past every service, as `changepassword` does."""
    name = {"name": stack.acme.username}
    (before,) = stack.store.rows("SELECT password FROM auth_user WHERE username = :name", **name)
    update = "UPDATE auth_user SET password = :password WHERE username = :name"
    tab = await asyncio.to_thread(signed_in, stack, stack.acme.username)
    async with chatting(stack, tab.cookies["sessionid"]) as socket:
        await still_answers(socket)
        stack.store.rows(update, password="!", **name)
        try:
            assert await socket.close_code() == 4401
        finally:
            stack.store.rows(update, password=before["password"], **name)


async def test_a_second_factor_that_is_called_for_closes_a_socket_that_says_nothing(
    stack: Stack,
) -> None:
    update = "UPDATE tenants_tenant SET requires_mfa = :required WHERE id = :id"
    async with chatting(stack) as socket:
        await still_answers(socket)
        stack.store.rows(update, required=True, id=stack.acme.id)
        try:
            assert await socket.close_code() == 4401
            async with chatting(stack) as another:
                assert await another.close_code() == 4401
        finally:
            stack.store.rows(update, required=False, id=stack.acme.id)


async def test_signing_out_in_another_tab_closes_at_the_next_question(stack: Stack) -> None:
    tab = await asyncio.to_thread(signed_in, stack, stack.acme.username)
    async with chatting(stack, tab.cookies["sessionid"]) as socket:
        await still_answers(socket)
        form = {"csrfmiddlewaretoken": tab.cookies["csrftoken"]}
        left = await asyncio.to_thread(tab.post, "/logout/", data=form)
        assert left.status_code == 302
        await socket.say("still me?")
        assert await socket.close_code() == 4401
    tab.close()


async def test_a_person_who_was_switched_off_is_closed_at_the_next_question(stack: Stack) -> None:
    change = "UPDATE auth_user SET is_active = :active WHERE username = :name"
    name = stack.globex.username
    async with chatting(stack, stack.globex.session) as socket:
        await still_answers(socket)
        stack.store.rows(change, active=False, name=name)
        try:
            await socket.say("still me?")
            assert await socket.close_code() == 4401
        finally:
            stack.store.rows(change, active=True, name=name)
