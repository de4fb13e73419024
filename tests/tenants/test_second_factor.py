"""Second factors: setting one up, signing in with it, having to, and losing it."""

from __future__ import annotations

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from kernel.errors import Conflict, PermissionDenied
from tenants.models import PlatformRole
from tenants.services import second_factor
from tests.tenants.recorded import new_records
from tests.tenants.signing_in import (
    PASSWORD,
    code_of,
    is_in,
    signed_in,
    try_in,
    with_app,
    with_password,
)
from tests.tenants.worlds import NOW, World, joined, person, platform_person

AUTHENTICATE = "/account/second-factor/authenticate/"
ACTIVATE = "/account/second-factor/totp/activate/"
INDEX = "/account/second-factor/"


@pytest.fixture
def member(acme: World) -> User:
    return with_password(acme.member)


def set_up_app(client: Client) -> None:
    assert client.get(ACTIVATE)["Location"].startswith("/account/reauthenticate/")
    client.post(f"/account/reauthenticate/?next={ACTIVATE}", {"password": PASSWORD})
    client.get(ACTIVATE)
    secret = client.session["mfa.totp.secret"]
    assert client.post(ACTIVATE, {"code": "000000"}).status_code == 200
    assert client.post(ACTIVATE, {"code": code_of(secret)}).status_code == 302


def test_an_app_is_set_up_and_asked_for_from_then_on(member: User) -> None:
    client = signed_in(member)
    before = signed_in(member)
    with new_records() as found:
        set_up_app(client)
    assert [row.action for row in found] == ["session.end", "mfa.add"]
    # That one was let in by a password alone.
    assert (is_in(client), is_in(before)) == (True, False)
    secret = Authenticator.objects.get(type="totp").data["secret"]
    assert secret.startswith("gAAAA"), "a database's copy must not make codes"

    fresh, _ = try_in(member.username)
    assert not is_in(fresh)
    assert fresh.get("/chat/")["Location"].startswith("/login/")
    assert fresh.post(AUTHENTICATE, {"code": "123456"}).status_code == 200
    assert not is_in(fresh)


def test_a_code_works_once(member: User) -> None:
    with_app(member)
    code = code_of()
    for works in (True, False):
        client, _ = try_in(member.username)
        with new_records() as found:
            client.post(AUTHENTICATE, {"code": code})
        assert is_in(client) is works
        assert [row.after for row in found if row.outcome == "done"] == (
            [{"by": "password+mfa"}] if works else []
        )


def test_codes_are_not_guessed(member: User) -> None:
    with_app(member)
    client, _ = try_in(member.username)
    for _ in range(5):
        assert "Incorrect code" in client.post(AUTHENTICATE, {"code": "1"}).content.decode()
    assert "Too many failed attempts" in client.post(AUTHENTICATE, {"code": "1"}).content.decode()
    client.post(AUTHENTICATE, {"code": code_of()})
    assert not is_in(client)


def test_who_must_have_one_is_led_to_it_before_anything_else(acme: World, member: User) -> None:
    admin = signed_in(with_password(joined(acme, person("chief"), "admin", staff=True)))
    client = signed_in(member)
    assert client.get("/chat/").status_code == 200
    second_factor.require(tenant=acme.tenant, required=True, actor=acme.owner, now=NOW)
    for address in ("/", "/chat/", "/chat/running/", "/tenant/"):
        assert client.get(address)["Location"] == INDEX, address
    assert admin.get("/admin/")["Location"] == INDEX
    assert admin.post("/admin/tenants/membership/add/", {})["Location"] == INDEX
    assert "You need a second factor here" in client.get(INDEX).content.decode()
    set_up_app(client)
    assert client.get("/chat/").status_code == 200
    assert "You need a second factor" not in client.get(INDEX).content.decode()


def test_api_keys_do_without(acme: World) -> None:
    second_factor.require(tenant=acme.tenant, required=True, actor=None, now=NOW)
    from tenants.services.keys import authenticate_key

    assert authenticate_key(f"Bearer {acme.key_text}", now=NOW).tenant_id == acme.tenant.pk


@pytest.mark.parametrize("role", PlatformRole.values)
def test_platform_roles_that_must(role: str, settings: Settings, db: None) -> None:
    somebody, root = platform_person(role), person("root", superuser=True)
    both = {str(somebody.pk), str(root.pk)}
    assert second_factor.without_required(both) == set()
    settings.MFA_REQUIRED_FOR = (role,)
    # Superusers are operators without a grant.
    required = both if role == "operator" else {str(somebody.pk)}
    assert second_factor.without_required(both) == required
    with_app(somebody)
    assert second_factor.without_required([str(somebody.pk)]) == set()


def test_a_tenant_that_must_says_nothing_of_others(acme: World, globex: World) -> None:
    second_factor.require(tenant=acme.tenant, required=True, actor=acme.admin, now=NOW)
    people = {str(each.pk) for each in (acme.member, globex.member)}
    assert second_factor.without_required(people) == {str(acme.member.pk)}
    acme.tenant.is_active = False
    acme.tenant.save()
    assert second_factor.without_required(people) == set()


def test_who_says_so(acme: World, globex: World) -> None:
    for stranger in (acme.member, globex.owner, platform_person("auditor")):
        with pytest.raises(PermissionDenied):
            second_factor.require(tenant=acme.tenant, required=True, actor=stranger, now=NOW)
    with new_records() as found:
        second_factor.require(tenant=acme.tenant, required=True, actor=acme.admin, now=NOW)
        second_factor.require(tenant=acme.tenant, required=True, actor=acme.admin, now=NOW)
    assert [(row.action, row.after) for row in found] == [("tenant.change", {"requires_mfa": True})]


def test_the_page_on_which_managers_say_so(acme: World, globex: World) -> None:
    page = "/admin/sign-in-policy/"
    client = Client()
    client.force_login(acme.admin)
    assert page in client.get("/admin/").content.decode()
    assert client.get(page).status_code == 200
    client.post(page, {"requires_mfa": "on"})
    acme.tenant.refresh_from_db()
    globex.tenant.refresh_from_db()
    assert (acme.tenant.requires_mfa, globex.tenant.requires_mfa) == (True, False)
    auditor = Client()
    auditor.force_login(joined(globex, person("looker", staff=True), "auditor"))
    assert auditor.get(page).status_code == 403
    assert auditor.post(page, {"requires_mfa": "on"}).status_code == 403


def test_an_operator_resets_what_was_lost(acme: World, member: User) -> None:
    root = person("root", superuser=True)
    with pytest.raises(Conflict):
        second_factor.reset(user=member, actor=root, now=NOW)
    client = signed_in(member)
    with_app(member)
    for stranger in (acme.owner, platform_person("auditor"), member):
        with pytest.raises(PermissionDenied):
            second_factor.reset(user=member, actor=stranger, now=NOW)
    with new_records() as found:
        second_factor.reset(user=member, actor=root, now=NOW)
    assert [(row.action, row.object_id) for row in found] == [
        ("session.end", str(member.pk)),
        ("mfa.reset", str(member.pk)),
    ]
    assert not is_in(client)
    assert is_in(signed_in(member))
