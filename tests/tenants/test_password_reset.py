"""A password that is reset by mail: one answer for everybody, and an end to what was open."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from tests.tenants.recorded import new_records
from tests.tenants.signing_in import is_in, signed_in, with_password
from tests.tenants.worlds import World

PAGE = "/account/password/reset/"


@pytest.fixture
def member(acme: World) -> User:
    acme.member.email = "member@acme.example"
    return with_password(acme.member)


def test_the_answer_is_the_same_whoever_asks(member: User) -> None:
    replies = [Client().post(PAGE, {"email": each}) for each in (member.email, "no@acme.example")]
    assert {(reply.status_code, reply["Location"]) for reply in replies} == {(302, f"{PAGE}done/")}
    assert [each.to for each in mail.outbox] == [[member.email], ["no@acme.example"]]


def test_the_link_works_once_and_ends_all_sessions(member: User) -> None:
    before, client = signed_in(member), Client()
    client.post(PAGE, {"email": member.email})
    found = re.search(r"http://testserver(\S+/reset/key/\S+)", str(mail.outbox[0].body))
    assert found is not None
    form = client.get(found[1])["Location"]
    words = "a river of words"
    with new_records() as records:
        client.post(form, {"password1": words, "password2": words})
    assert [row.action for row in records] == ["session.end", "person.password"]
    assert not is_in(before)
    assert "too old" in Client().get(found[1]).content.decode()
