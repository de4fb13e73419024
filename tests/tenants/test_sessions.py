"""One's sessions: where they are, ending them, and what ends them by itself."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tenants.services import accounts
from tenants.services.sessions import end_session, sessions_of
from tests.tenants.recorded import new_records
from tests.tenants.signing_in import PASSWORD, is_in, signed_in, try_in, with_password
from tests.tenants.worlds import World, person

PAGE = "/account/sessions/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def member(acme: World) -> User:
    return with_password(acme.member)


def test_the_list_names_device_and_address(member: User) -> None:
    client, _ = try_in(member.username, HTTP_USER_AGENT=FIREFOX, REMOTE_ADDR="192.0.2.7")
    signed_in(member)
    page = client.get(PAGE).content.decode()
    assert page.count('data-testid="session"') == 2
    assert "Firefox, Linux" in page
    assert "192.0.2.7" in page
    assert page.count("this one") == 1
    assert str(client.session.session_key) not in page


def test_one_is_ended_and_all_others(member: User) -> None:
    here, there, elsewhere = (signed_in(member) for _ in range(3))
    listed = sessions_of(member, current_key=there.session.session_key, now=timezone.now())
    assert listed[0].is_current
    with new_records() as found:
        here.post(PAGE, {"session": str(listed[0].id)})
    assert [row.action for row in found] == ["session.end"]
    assert [is_in(each) for each in (here, there, elsewhere)] == [True, False, True]
    here.post(PAGE, {"all_others": "1"})
    assert [is_in(each) for each in (here, there, elsewhere)] == [True, False, False]


@pytest.mark.parametrize("named", ["", "x", "-1", "²", "9" * 40, "0"])
def test_what_is_no_session_ends_none(named: str, member: User) -> None:
    client = signed_in(member)
    assert client.post(PAGE, {"session": named}).status_code == 302
    assert is_in(client)


def test_sessions_of_others_are_out_of_reach(member: User, globex: World) -> None:
    theirs = signed_in(with_password(globex.member))
    row = sessions_of(globex.member, current_key=None, now=timezone.now())[0]
    assert signed_in(member).post(PAGE, {"session": str(row.id)}).status_code == 302
    assert not end_session(user=member, session_id=row.id, actor=member, now=timezone.now())
    assert is_in(theirs)


def test_another_password_leaves_only_the_session_that_set_it(member: User) -> None:
    here, there = signed_in(member), signed_in(member)
    words = "a river of words"
    new = {"oldpassword": PASSWORD, "password1": words, "password2": words}
    with new_records() as found:
        assert here.post("/account/password/change/", new).status_code == 302
    assert [row.action for row in found] == ["session.end", "person.password"]
    assert (is_in(here), is_in(there)) == (True, False)
    # Not only refused: gone, however the next password comes about.
    assert Session.objects.count() == 1


def test_switched_off_and_on_again_one_signs_in_anew(acme: World, member: User) -> None:
    client = signed_in(member)
    for is_active in (False, True):
        member.is_active = is_active
        accounts.save_account(user=member, actor=None, now=timezone.now())
    assert not is_in(client)


def test_operators_end_somebodys_sessions(member: User) -> None:
    theirs, client = signed_in(member), Client()
    client.force_login(person("root", superuser=True))
    chosen = {"action": "end_their_sessions", "_selected_action": [str(member.pk)]}
    page = client.post("/admin/auth/user/", chosen, follow=True).content.decode()
    assert "1 session was ended." in page
    assert not is_in(theirs)
