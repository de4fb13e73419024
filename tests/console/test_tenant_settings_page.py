from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tenants.models import Role, Tenant
from tests.console.test_concurrent_edits import opened, told
from tests.tenants.worlds import World, joined, person

LIST = "/admin/tenants/tenantsettings/"


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(world: World) -> str:
    return f"{LIST}{world.tenant.pk}/change/"


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_managers_set_what_their_tenant_was_granted(acme: World, role: str) -> None:
    Tenant.objects.filter(pk=acme.tenant.pk).update(
        high_water_tokens=100, highest_priority="standard"
    )
    client = of(getattr(acme, role))
    assert acme.tenant.name in client.get(LIST).content.decode()
    form = client.get(page(acme))
    choices = form.context["adminform"].form.fields["default_priority"].choices
    assert [value for value, _ in choices] == ["standard", "batch"]
    fields = {"default_priority": "batch", "own_high_water_tokens": "40"}
    assert client.post(page(acme), fields).status_code == 302
    saved = Tenant.objects.get(pk=acme.tenant.pk)
    assert (saved.default_priority, saved.own_high_water_tokens) == ("batch", 40)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"own_high_water_tokens": "101"}, "own_high_water_tokens"),
        ({"default_priority": "interactive"}, "default_priority"),
    ],
)
def test_beyond_the_grant_the_form_says_where(
    acme: World, fields: dict[str, str], wrong: str
) -> None:
    Tenant.objects.filter(pk=acme.tenant.pk).update(
        high_water_tokens=100, highest_priority="standard"
    )
    good = {"default_priority": "batch", "own_high_water_tokens": "40"}
    answer = of(acme.admin).post(page(acme), good | fields)
    assert list(answer.context["adminform"].form.errors) == [wrong]
    assert Tenant.objects.get(pk=acme.tenant.pk).default_priority == "standard"


def test_the_grants_themselves_are_not_theirs_to_change(acme: World) -> None:
    fields = {"default_priority": "batch", "own_high_water_tokens": "4"}
    more = {"highest_priority": "interactive", "high_water_tokens": "9", "weight": "100"}
    before = Tenant.objects.get(pk=acme.tenant.pk)
    assert of(acme.admin).post(page(acme), fields | more).status_code == 302
    after = Tenant.objects.get(pk=acme.tenant.pk)
    for name in more:
        assert getattr(after, name) == getattr(before, name)


def test_a_stranger_finds_nothing_there_and_an_auditor_changes_nothing(
    acme: World, globex: World
) -> None:
    auditor = joined(acme, person("auditor", staff=True), Role.AUDITOR)
    assert of(auditor).get(page(acme)).status_code == 200
    for client in (of(globex.owner), of(auditor)):
        assert client.post(page(acme), {"default_priority": "batch"}).status_code in (302, 403)
    assert of(globex.owner).get(page(acme)).status_code == 302
    assert Tenant.objects.get(pk=acme.tenant.pk).default_priority == "standard"


def test_two_managers_at_once(acme: World) -> None:
    client = of(acme.admin)
    mine = opened(client, page(acme))
    Tenant.objects.filter(pk=acme.tenant.pk).update(default_priority="batch")
    answer = client.post(page(acme), {"default_priority": "interactive"} | mine)
    assert "default priority: standard → batch" in told(answer)
