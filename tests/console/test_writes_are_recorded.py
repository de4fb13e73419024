"""Whatever is done in the admin leaves a record of who, what, and what became of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import Client

from inference.models import Release, Route
from tenants import scope
from tenants.models import Membership, Role, ServiceAccount, Tenant
from tests.tenants.recorded import new_records
from tests.tenants.worlds import World, joined, person


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def told(records: list[Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    return [(row.action, row.before, row.after) for row in records]


def test_every_page_that_writes_says_what_the_log_may_hold() -> None:
    for model, admin in site._registry.items():
        pages: Any = admin
        if model._meta.label == "tenants.ApiKey":
            continue  # its verbs say it themselves
        listed = pages.listed
        assert bool(listed.create) == pages.can_add, model
        assert bool(listed.change) == pages.can_change, model
        assert bool(listed.delete) == pages.can_delete, model


TENANT = {
    "name": "acme and sons",
    "slug": "acme",
    "weight": "1.0",
    "default_priority": "standard",
    "highest_priority": "interactive",
}


def test_a_tenant_made_changed_and_deleted(operator: Client, acme: World) -> None:
    page = f"/admin/tenants/tenant/{acme.tenant.pk}/change/"
    with new_records() as found:
        operator.post(page, TENANT | {"weight": "2.5", "highest_priority": "standard"})
        operator.post(page, TENANT | {"weight": "2.5", "highest_priority": "standard"})
        operator.post("/admin/tenants/tenant/add/", TENANT | {"slug": "new"})
        new = Tenant.objects.get(slug="new")
        operator.post(f"/admin/tenants/tenant/{new.pk}/delete/", {"post": "yes"})
    assert [row.action for row in found] == ["tenant.change", "tenant.create", "tenant.delete"]
    change, create, delete = found
    assert change.before == {"weight": "1.0", "highest_priority": "interactive"}
    assert change.after == {"weight": "2.5", "highest_priority": "standard"}
    assert change.tenant_id == acme.tenant.pk
    assert create.after["slug"] == delete.before["slug"] == "new"
    assert delete.tenant_id == delete.object_id == new.pk
    assert not Tenant.objects.filter(pk=new.pk).exists()


def test_a_service_account_of_ones_tenant(acme: World) -> None:
    client, page = of(acme.admin), "/admin/tenants/serviceaccount/"
    with new_records() as found:
        client.post(f"{page}add/", {"name": "crawler", "is_active": "on"})
        with scope.tenant(acme.tenant.pk):
            pk = ServiceAccount.objects.get(name="crawler").pk
        client.post(f"{page}{pk}/change/", {"name": "crawler"})
        client.post(page, {"action": "delete_selected", "_selected_action": [pk], "post": "yes"})
    assert told(found) == [
        ("service_account.create", {}, {"name": "crawler", "is_active": True}),
        ("service_account.change", {"is_active": True}, {"is_active": False}),
        ("service_account.delete", {"name": "crawler", "is_active": False}, {}),
    ]
    for row in found:
        assert (row.tenant_id, row.actor_id) == (acme.tenant.pk, str(acme.admin.pk))
        assert row.session
        assert row.request_id.startswith("req_")
        assert row.ip == "127.0.0.1"


def test_releases_and_routes_without_what_may_be_secret_in_arguments(operator: Client) -> None:
    arguments = '{"hf_token": "canary", "max_num_seqs": 8, "inner": {"password": "canary"}}'
    release = {
        "name": "small",
        "engine": "fake",
        "context_tokens": "64",
        "engine_arguments": arguments,
    }
    with new_records() as found:
        operator.post("/admin/inference/release/add/", release)
        pk = Release.objects.get(name="small").pk
        route = {"name": "model", "release": pk, "is_active": "on", "detached": "hold"}
        operator.post("/admin/inference/route/add/", route)
        route_pk = Route.objects.get(name="model").pk
        operator.post(f"/admin/inference/route/{route_pk}/change/", route | {"detached": "cancel"})
        operator.post(f"/admin/inference/route/{route_pk}/delete/", {"post": "yes"})
    assert [row.action for row in found] == [
        "release.create",
        "route.create",
        "route.change",
        "route.delete",
    ]
    assert found[0].after["engine_arguments"] == {
        "hf_token": "(not kept)",
        "max_num_seqs": 8,
        "inner": {"password": "(not kept)"},
    }
    assert found[1].after["release_id"] == pk
    assert (found[2].before, found[2].after) == ({"detached": "hold"}, {"detached": "cancel"})
    assert "canary" not in str([vars(row) for row in found])


def test_peoples_accounts_and_passwords(operator: Client, acme: World) -> None:
    secret = "a long enough canary-passphrase"
    new = {"username": "peter", "usable_password": "true", "password1": secret, "password2": secret}
    with new_records() as found:
        operator.post("/admin/auth/user/add/", new)
        peter = User.objects.get(username="peter")
        fields = {"username": "peter", "is_active": "on", "is_superuser": "on", "email": "p@x.org"}
        operator.post(f"/admin/auth/user/{peter.pk}/change/", fields)
        wrong = new | {"password2": "another"}
        operator.post(f"/admin/auth/user/{peter.pk}/password/", wrong)
        operator.post(f"/admin/auth/user/{peter.pk}/password/", new)
        operator.post(f"/admin/auth/user/{peter.pk}/delete/", {"post": "yes"})
    assert [row.action for row in found] == [
        "person.create",
        "person.change",
        "person.password",
        "person.delete",
    ]
    assert (found[1].before, found[1].after) == ({"is_superuser": False}, {"is_superuser": True})
    text = str([vars(row) for row in found])
    assert "canary" not in text
    assert "pbkdf2" not in text
    assert "p@x.org" not in text


def test_ones_own_password(acme: World) -> None:
    acme.admin.set_password("the old passphrase 1")
    acme.admin.save()
    client = of(acme.admin)
    page = client.get("/admin/password_change/")["Location"]
    assert page == "/account/password/change/"
    new = {"password1": "the new passphrase 2", "password2": "the new passphrase 2"}
    with new_records() as found:
        client.post(page, new | {"oldpassword": "wrong"})
        client.post(page, new | {"oldpassword": "the old passphrase 1"})
    assert [(row.action, row.object_id) for row in found] == [
        ("person.password", str(acme.admin.pk))
    ]


def test_a_refusal_is_recorded_although_all_else_is_rolled_back(acme: World) -> None:
    client = of(acme.owner)
    with scope.tenant(acme.tenant.pk):
        mine = Membership.objects.get(user=acme.owner)
    page = f"/admin/tenants/membership/{mine.pk}"
    with new_records() as found:
        client.post(f"{page}/change/", {"role": "member"})
        client.post(f"{page}/delete/", {"post": "yes"})
    assert [(row.action, row.decision, row.reason, row.outcome) for row in found] == [
        ("member.change", "denied", "last_owner", "refused"),
        ("member.remove", "denied", "last_owner", "refused"),
    ]
    assert {(row.tenant_id, row.actor_id) for row in found} == {
        (acme.tenant.pk, str(acme.owner.pk))
    }


def test_an_account_of_a_last_owner_stays(operator: Client, acme: World) -> None:
    page = f"/admin/auth/user/{acme.owner.pk}/delete/"
    answer = operator.post(page, {"post": "yes"}, follow=True).content.decode()
    assert "A tenant needs an owner" in answer
    assert User.objects.filter(pk=acme.owner.pk).exists()
    joined(acme, person("second"), Role.OWNER)
    operator.post(page, {"post": "yes"})
    assert not User.objects.filter(pk=acme.owner.pk).exists()


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_looking_leaves_no_record(role: str, acme: World) -> None:
    client = of(getattr(acme, role))
    with new_records() as found:
        client.get("/admin/")
        client.get("/admin/tenants/membership/")
        client.post("/admin/tenants/serviceaccount/add/", {"name": ""})
    assert found == []
