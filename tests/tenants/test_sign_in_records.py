"""Who signed in and out, who was refused, and nothing that anybody could sign in with."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from kernel import origin
from kernel.networks import as_network
from tests.tenants.recorded import new_records, recorded
from tests.tenants.worlds import World, joined

PASSWORD = "correct horse battery staple"
LOGIN = "/login/"


@pytest.fixture
def somebody(acme: World) -> User:
    acme.admin.set_password(PASSWORD)
    acme.admin.save()
    return acme.admin


def sign_in(username: str, password: str) -> Client:
    client = Client(REMOTE_ADDR="192.0.2.7")
    client.post(LOGIN, {"username": username, "password": password})
    return client


def test_signing_in_and_out(somebody: User, acme: World) -> None:
    with new_records() as found:
        client = sign_in(somebody.username, PASSWORD)
        key = client.session.session_key
        client.post(reverse("logout"))
    assert [(row.action, row.outcome) for row in found] == [
        ("sign_in", "done"),
        ("sign_out", "done"),
    ]
    for row in found:
        assert (row.actor_type, row.actor_id) == ("user", str(somebody.pk))
        assert (row.tenant_id, row.ip) == (acme.tenant.pk, "192.0.2.7")
        assert row.request_id.startswith("req_")
        assert row.session == origin.digest_of(key)
    assert found[0].after == {"by": "password"}
    assert str(key) not in str([vars(row) for row in found])


def test_behind_a_trusted_proxy_the_address_is_the_clients(
    somebody: User, settings: Settings
) -> None:
    settings.TRUSTED_PROXIES = (as_network("192.0.2.0/24"),)
    with new_records() as found:
        client = Client(REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.9, 198.51.100.4")
        client.post(LOGIN, {"username": somebody.username, "password": PASSWORD})
    assert [row.ip for row in found] == ["198.51.100.4"]


def test_being_refused(somebody: User, acme: World) -> None:
    with new_records() as found:
        sign_in(somebody.username, "wrong canary-password")
        sign_in("canary-typed-in-the-wrong-field", PASSWORD)
    assert [(row.action, row.decision, row.reason) for row in found] == [
        ("sign_in", "denied", "invalid_login")
    ] * 2
    assert [row.object_id for row in found] == [str(somebody.pk), ""]
    assert [row.tenant_id for row in found] == [acme.tenant.pk, None]
    assert {row.actor_type for row in found} == {"anonymous"}
    told = str([vars(row) for row in recorded()])
    assert "canary" not in told
    assert PASSWORD not in told


def test_attempts_at_one_unknown_name_belong_together(db: None) -> None:
    with new_records() as found:
        for name in ("nobody", "nobody", "somebody"):
            sign_in(name, "x")
    first, second, other = (row.object_digest for row in found)
    assert first == second != other


def test_somebody_who_was_switched_off_is_refused(somebody: User) -> None:
    User.objects.filter(pk=somebody.pk).update(is_active=False)
    with new_records() as found:
        sign_in(somebody.username, PASSWORD)
    assert [row.outcome for row in found] == ["refused"]


def test_a_tenant_is_not_told_of_somebody_who_belongs_to_another_too(
    somebody: User, globex: World
) -> None:
    joined(globex, somebody, "member")
    with new_records() as found:
        sign_in(somebody.username, PASSWORD)
        sign_in(somebody.username, "wrong")
    assert [row.tenant_id for row in found] == [None, None]
