"""Every role held against every page: the admin lets in whom the table lets in, to look or do."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from console.pages import PlatformAdmin
from tenants import scope
from tenants.models import Membership, PlatformGrant, PlatformRole, Role, ServiceAccount
from tenants.permissions import Action, Standing, allowed
from tests.console.samples import SAMPLES, furnish
from tests.tenants.worlds import World, joined, person, platform_person

MODELS = sorted(SAMPLES, key=lambda model: model._meta.label)
IN_TENANT = [Role.OWNER, Role.ADMIN, Role.BILLING, Role.AUDITOR]


def page(model: type[Model], name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def statuses(client: Client, model: type[Model], row: Model) -> dict[str, int]:
    return {
        "list": client.get(page(model, "changelist")).status_code,
        "look": client.get(page(model, "change", row.pk)).status_code,
        "change": client.post(page(model, "change", row.pk), {}).status_code,
        "add": client.get(page(model, "add")).status_code,
        "delete": client.get(page(model, "delete", row.pk)).status_code,
    }


def expected(model: type[Model], standing: Standing, tenant_id: str | None) -> dict[str, int]:
    admin: Any = site._registry[model]
    # What is the platform's is not opened by what somebody may do in a tenant.
    place = None if isinstance(admin, PlatformAdmin) else tenant_id

    def status(action: Action | None, is_there: bool = True) -> int:
        may = is_there and action is not None and allowed(standing, action, place)
        return 200 if may else 403

    return {
        "list": status(admin.sees),
        "look": status(admin.sees),
        "change": status(admin.manages, admin.can_change),
        "add": status(admin.manages, admin.can_add),
        "delete": status(admin.manages, admin.can_delete),
    }


@pytest.mark.parametrize("role", IN_TENANT)
def test_a_tenants_role(role: str, acme: World) -> None:
    furnish(acme)
    client = of(joined(acme, person("somebody", staff=True), role))
    standing = Standing(tenants={acme.tenant.pk: role})
    with scope.tenant(acme.tenant.pk):
        # An owner's is for owners alone to touch: that has tests of its own.
        rows = {Membership: Membership.objects.get(user=acme.member)}
    for model in MODELS:
        found = statuses(client, model, rows.get(model) or SAMPLES[model].find(acme))
        assert found == expected(model, standing, acme.tenant.pk), model


@pytest.mark.parametrize("role", list(PlatformRole))
def test_a_platform_role(role: str, acme: World) -> None:
    furnish(acme)
    client = of(platform_person(role))
    for model in MODELS:
        found = statuses(client, model, SAMPLES[model].find(acme))
        assert found == expected(model, Standing(frozenset({role})), None), model


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.BILLING])
def test_who_only_looks_changes_nothing(role: str, acme: World) -> None:
    client = of(joined(acme, person("somebody", staff=True), role))
    address = page(ServiceAccount, "change", acme.account.pk)
    assert client.post(address, {"name": "taken", "is_active": "on"}).status_code == 403
    assert client.post(page(ServiceAccount, "add"), {"name": "new"}).status_code == 403
    with scope.tenant(acme.tenant.pk):
        assert [row.name for row in ServiceAccount.objects.all()] == ["acme-robot"]


def test_every_page_says_what_one_must_be_allowed() -> None:
    for model, admin in site._registry.items():
        pages: Any = admin
        assert isinstance(pages.sees, Action), model
        if pages.can_add or pages.can_change or pages.can_delete:
            assert isinstance(pages.manages, Action), model


# -- Platform roles and owners in the admin


def test_an_operator_gives_and_withdraws_a_platform_role(operator: Client, acme: World) -> None:
    add, changelist = page(PlatformGrant, "add"), page(PlatformGrant, "changelist")
    operator.post(add, {"username": "acme-member", "role": "auditor"})
    grant = PlatformGrant.objects.get()
    assert (grant.user, grant.role) == (acme.member, "auditor")
    again = operator.post(add, {"username": "acme-member", "role": "auditor"})
    assert "already exists" in str(again.context["adminform"].form.errors)
    assert "acme-member" in operator.get(changelist).content.decode()
    operator.post(page(PlatformGrant, "delete", grant.pk), {"post": "yes"})
    assert not PlatformGrant.objects.exists()


@pytest.mark.parametrize("language", ["en", "tr"])
def test_the_last_owner_is_told_to_stay(language: str, acme: World) -> None:
    client = of(acme.owner)
    words = {"en": "A tenant needs an owner", "tr": "Kiracının bir sahibi olmalı"}[language]
    with scope.tenant(acme.tenant.pk):
        mine = Membership.objects.get(user=acme.owner)
    for address, data in (
        (page(Membership, "change", mine.pk), {"role": "member"}),
        (page(Membership, "delete", mine.pk), {"post": "yes"}),
        (
            page(Membership, "changelist"),
            {"action": "delete_selected", "_selected_action": [mine.pk], "post": "yes"},
        ),
    ):
        told = client.post(address, data, follow=True, headers={"accept-language": language})
        assert words in told.content.decode(), address
        with scope.tenant(acme.tenant.pk):
            assert Membership.objects.get(pk=mine.pk).role == Role.OWNER
