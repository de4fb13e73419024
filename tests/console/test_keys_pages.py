from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from inference.models import Release, Route
from kernel.errors import Unauthenticated
from tenants import scope
from tenants.models import ApiKey
from tenants.services.keys import authenticate_key
from tests.tenants.worlds import World

LIST = "/admin/tenants/apikey/"
ADD = f"{LIST}add/"


@pytest.fixture
def manager(acme: World) -> Client:
    client = Client()
    client.force_login(acme.admin)
    return client


def new_key(world: World, **fields: Any) -> dict[str, Any]:
    return {
        "service_account": world.account.pk,
        "name": "deploy",
        "expires_at_0": "",
        "expires_at_1": "",
        "highest_priority": "standard",
        "scopes": ["chat"],
        "networks": "",
    } | fields


def text_in(page: str) -> str:
    found = re.search(r'id="key-text"[^>]*>(nhr_\w+)<', page)
    assert found
    return found[1]


def test_a_key_is_shown_once_and_works(manager: Client, acme: World) -> None:
    response = manager.post(ADD, new_key(acme))
    text = text_in(response.content.decode())
    principal = authenticate_key(f"Bearer {text}", now=timezone.now())

    assert principal.tenant_id == acme.tenant.pk
    assert principal.id == acme.account.pk
    assert "no-store" in response["Cache-Control"]
    secret = text.split("_")[3]
    for page in (
        LIST,
        f"{LIST}{principal.key_id}/change/",
        f"{LIST}{principal.key_id}/history/",
        "/admin/",
    ):
        assert secret not in manager.get(page).content.decode()


def test_a_key_is_kept_nowhere(
    manager: Client, acme: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        response = manager.post(ADD, new_key(acme))
    secret = text_in(response.content.decode()).split("_")[3]
    cookies = str(manager.cookies) + str(response.cookies)

    assert secret not in caplog.text
    assert secret not in cookies
    assert secret not in str([one.get_decoded() for one in Session.objects.all()])
    assert secret not in str(list(LogEntry.objects.values()))
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            assert secret not in str(cursor.fetchall()), table


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"highest_priority": "urgent"},
        {"name": "x" * 101},
        {"service_account": ""},
        {"service_account": "sva_nobody"},
        {"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"},
        {"expires_at_0": "soon", "expires_at_1": "later"},
        {"scopes": []},
        {"scopes": ["chat", "root"]},
        {"model_names": ["no such model"]},
        {"networks": "10.0.0.1/8"},
        {"networks": "everywhere"},
        {"networks": "10.0.0.0/8 " * 65},
    ],
)
def test_what_is_wrong_is_said_beside_the_field(
    manager: Client, acme: World, fields: dict[str, Any]
) -> None:
    response = manager.post(ADD, new_key(acme, **fields))
    assert response.status_code == 200
    assert response.context["adminform"].form.errors
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.count() == 1


def test_an_inactive_account_is_not_offered(manager: Client, acme: World) -> None:
    assert "acme-robot" in manager.get(ADD).content.decode()
    with scope.tenant(acme.tenant.pk):
        acme.account.is_active = False
        acme.account.save()
    assert "acme-robot" not in manager.get(ADD).content.decode()
    assert manager.post(ADD, new_key(acme)).context["adminform"].form.errors


def test_revoking_asks_first(manager: Client, acme: World) -> None:
    choice = {"action": "revoke", "_selected_action": [acme.key.pk]}
    asked = manager.post(LIST, choice)
    assert acme.key.pk in asked.content.decode()
    authenticate_key(f"Bearer {acme.key_text}", now=timezone.now())

    done = manager.post(LIST, choice | {"confirmed": "yes"}, follow=True)
    assert "1 key revoked." in done.content.decode()
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=timezone.now())
    assert LogEntry.objects.filter(object_id=acme.key.pk, user=acme.admin).count() == 1


def test_the_page_of_a_key_leads_to_the_same_question(manager: Client, acme: World) -> None:
    detail = manager.get(f"{LIST}{acme.key.pk}/change/").content.decode()
    address = reverse("admin:tenants_apikey_revoke_one", args=(acme.key.pk,))
    assert address in detail
    page = manager.get(address).content.decode()
    assert f'action="{LIST}"' in page
    assert f'value="{acme.key.pk}"' in page
    authenticate_key(f"Bearer {acme.key_text}", now=timezone.now())


def test_keys_are_neither_edited_nor_deleted(
    manager: Client, operator: Client, acme: World
) -> None:
    for client in (manager, operator):
        assert client.post(f"{LIST}{acme.key.pk}/change/", {"name": "other"}).status_code == 403
        assert client.post(f"{LIST}{acme.key.pk}/delete/", {"post": "yes"}).status_code == 403
        client.post(f"/admin/tenants/serviceaccount/{acme.account.pk}/delete/", {"post": "yes"})
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.get().name == "acme-key"


def test_the_list_filters_by_status(manager: Client, acme: World) -> None:
    def shown(status: str) -> int:
        return int(manager.get(LIST, {"status": status}).context["cl"].result_count)

    assert [shown(status) for status in ("active", "expired", "revoked")] == [1, 0, 0]
    with scope.tenant(acme.tenant.pk):
        ApiKey.objects.update(expires_at=timezone.now())
    assert [shown(status) for status in ("active", "expired", "revoked")] == [0, 1, 0]
    with scope.tenant(acme.tenant.pk):
        ApiKey.objects.update(revoked_at=timezone.now())
    assert [shown(status) for status in ("active", "expired", "revoked")] == [0, 0, 1]


def test_an_operators_key_goes_to_the_accounts_tenant(
    operator: Client, acme: World, globex: World
) -> None:
    text = text_in(operator.post(ADD, new_key(globex)).content.decode())
    principal = authenticate_key(f"Bearer {text}", now=timezone.now())
    assert principal.tenant_id == globex.tenant.pk


def test_the_form_leads_nowhere_but_to_the_key(manager: Client, acme: World) -> None:
    page = manager.get(ADD).content.decode()
    assert 'name="_save"' in page
    assert 'name="_addanother"' not in page
    assert 'name="_continue"' not in page
    assert text_in(manager.post(ADD, new_key(acme, _addanother="1")).content.decode())


def test_the_page_of_a_key_names_its_status(manager: Client, acme: World) -> None:
    page = manager.get(f"{LIST}{acme.key.pk}/change/").content.decode()
    assert "Active" in page
    assert "(&#x27;active" not in page


def test_a_key_may_be_given_the_highest_priority(manager: Client, acme: World) -> None:
    response = manager.post(ADD, new_key(acme, highest_priority="interactive"))
    text = text_in(response.content.decode())
    principal = authenticate_key(f"Bearer {text}", now=timezone.now())
    assert principal.highest_priority == "interactive"


def test_a_key_is_given_its_rights(manager: Client, acme: World) -> None:
    release = Release.objects.create(name="r", engine="fake", context_tokens=64)
    for name in ("small", "large"):
        Route.objects.create(name=name, release=release)
    asked = {
        "scopes": ["usage", "chat"],
        "model_names": ["small"],
        "networks": "192.0.2.0/24\n2001:db8::/32, ::ffff:10.0.0.1",
    }
    text = text_in(manager.post(ADD, new_key(acme, **asked)).content.decode())
    principal = authenticate_key(f"Bearer {text}", now=timezone.now())
    assert principal.scopes == {"chat", "usage"}
    assert principal.models == {"small"}
    page = manager.get(f"{LIST}{principal.key_id}/change/").content.decode()
    for told in ("small", "192.0.2.0/24, 2001:db8::/32, 10.0.0.1/32", "acme-admin"):
        assert told in page, told


# -- Rotating


def rotate_page(world: World) -> str:
    return reverse("admin:tenants_apikey_rotate_one", args=(world.key.pk,))


def test_rotating_asks_first_and_shows_the_new_key_once(manager: Client, acme: World) -> None:
    assert rotate_page(acme) in manager.get(f"{LIST}{acme.key.pk}/change/").content.decode()
    asked = manager.get(rotate_page(acme)).content.decode()
    assert 'name="overlap_h" value="24"' in asked
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.count() == 1

    done = manager.post(rotate_page(acme), {"overlap_h": "2"})
    assert "no-store" in done["Cache-Control"]
    text = text_in(done.content.decode())
    now = timezone.now()
    new = authenticate_key(f"Bearer {text}", now=now)
    assert authenticate_key(f"Bearer {acme.key_text}", now=now + timedelta(hours=1.9))
    with pytest.raises(Unauthenticated):
        authenticate_key(f"Bearer {acme.key_text}", now=now + timedelta(hours=2))
    assert acme.key.pk in manager.get(f"{LIST}{new.key_id}/change/").content.decode()
    assert text.split("_")[3] not in manager.get(rotate_page(acme)).content.decode()


@pytest.mark.parametrize("overlap", ["", "-1", "8761", "soon"])
def test_an_overlap_that_cannot_be_is_said_beside_the_field(
    manager: Client, acme: World, overlap: str
) -> None:
    response = manager.post(rotate_page(acme), {"overlap_h": overlap})
    assert response.context["form"].errors["overlap_h"]
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.count() == 1


def test_a_key_that_was_rotated_is_not_rotated_again(manager: Client, acme: World) -> None:
    for _ in range(2):
        response = manager.post(rotate_page(acme), {"overlap_h": "2"})
    assert "rotated before" in response.content.decode()
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.count() == 2


def test_nobody_rotates_another_tenants_key(manager: Client, acme: World, globex: World) -> None:
    for respond in (manager.get, manager.post):
        assert respond(rotate_page(globex), {"overlap_h": "2"}).status_code == 404
    with scope.tenant(globex.tenant.pk):
        assert ApiKey.objects.count() == 1


# -- Finding


@pytest.mark.parametrize(
    "found",
    [
        lambda key: key,
        lambda key: key[:-20],
        lambda key: key[:14],
        lambda key: f" {key} ",
        lambda key: key.split("_")[2],
        lambda key: key.split("_")[2][:8],
    ],
)
def test_a_key_that_was_found_is_searched_by_its_public_part_alone(
    manager: Client, acme: World, globex: World, found: Any
) -> None:
    response = manager.get(LIST, {"q": found(acme.key_text)}, follow=True)
    assert [key.pk for key in response.context["cl"].queryset] == [acme.key.pk]
    secret = acme.key_text.split("_")[3]
    assert secret[:8] not in response.content.decode()
    assert not any(secret[:8] in address for address, _ in response.redirect_chain)
    theirs = manager.get(LIST, {"q": found(globex.key_text)}, follow=True)
    assert not theirs.context["cl"].queryset
