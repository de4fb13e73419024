"""What managers and operators do in the admin, and what the admin leaves out."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.site import ConsoleSite
from streaming.models import Conversation
from tenants import scope
from tenants.models import Membership, Role, ServiceAccount, Tenant
from tests.console.samples import SAMPLES, first, furnish
from tests.tenants.worlds import World, person

ACCOUNTS = "/admin/tenants/serviceaccount/"
MEMBERS = "/admin/tenants/membership/"


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def errors(response: object) -> str:
    return str(response.context["adminform"].form.errors)  # type: ignore[attr-defined]


def role_of(world: World, user: User) -> str | None:
    with scope.tenant(world.tenant.pk):
        row = Membership.objects.filter(user=user).first()
    return None if row is None else row.role


def member_page(world: World, user: User, page: str = "change") -> str:
    with scope.tenant(world.tenant.pk):
        return f"{MEMBERS}{Membership.objects.get(user=user).pk}/{page}/"


def test_a_new_row_goes_to_the_managers_tenant(acme: World) -> None:
    of(acme.admin).post(f"{ACCOUNTS}add/", {"name": "crawler", "is_active": "on"})
    with scope.whole_platform():
        assert ServiceAccount.objects.get(name="crawler").tenant == acme.tenant


def test_a_name_taken_in_the_tenant_is_refused_and_one_taken_elsewhere_is_not(
    acme: World, globex: World
) -> None:
    taken = of(acme.admin).post(f"{ACCOUNTS}add/", {"name": "acme-robot"})
    assert "already exists" in errors(taken)
    free = of(acme.admin).post(f"{ACCOUNTS}add/", {"name": "globex-robot"})
    assert free.status_code == 302


def test_an_operator_chooses_the_tenant_of_a_new_row_and_never_moves_one(
    operator: Client, acme: World, globex: World
) -> None:
    assert "required" in errors(operator.post(f"{ACCOUNTS}add/", {"name": "crawler"}))
    operator.post(f"{ACCOUNTS}add/", {"name": "crawler", "tenant": globex.tenant.pk})
    operator.post(
        f"{ACCOUNTS}{acme.account.pk}/change/", {"name": "renamed", "tenant": globex.tenant.pk}
    )
    with scope.whole_platform():
        assert ServiceAccount.objects.get(name="crawler").tenant == globex.tenant
        assert ServiceAccount.objects.get(name="renamed").tenant == acme.tenant


def test_a_manager_adds_a_person_by_exact_username(acme: World, globex: World) -> None:
    client = of(acme.admin)
    page = client.get(f"{MEMBERS}add/").content.decode()
    assert "globex" not in page
    for wrong in ("globex", "GLOBEX-MEMBER", "", "nobody"):
        assert errors(client.post(f"{MEMBERS}add/", {"username": wrong, "role": "member"}))
    added = client.post(f"{MEMBERS}add/", {"username": "globex-member", "role": "member"})
    assert added.status_code == 302
    assert role_of(acme, globex.member) == Role.MEMBER
    again = client.post(f"{MEMBERS}add/", {"username": "globex-member", "role": "admin"})
    assert "already exists" in errors(again)


def test_an_admin_changes_and_ends_memberships(acme: World) -> None:
    client = of(acme.admin)
    client.post(member_page(acme, acme.member), {"role": "admin"})
    assert role_of(acme, acme.member) == Role.ADMIN
    acme.member.refresh_from_db()
    assert acme.member.is_staff
    client.post(member_page(acme, acme.member, "delete"), {"post": "yes"})
    assert role_of(acme, acme.member) is None
    assert User.objects.filter(pk=acme.member.pk).exists()


def test_an_admin_neither_makes_nor_touches_owners(acme: World) -> None:
    client = of(acme.admin)
    friend = person("friend")
    assert 'value="owner"' not in client.get(f"{MEMBERS}add/").content.decode()
    assert errors(client.post(f"{MEMBERS}add/", {"username": friend.username, "role": "owner"}))
    assert errors(client.post(member_page(acme, acme.admin), {"role": "owner"}))
    assert client.post(member_page(acme, acme.owner), {"role": "member"}).status_code == 403
    assert client.post(member_page(acme, acme.owner, "delete"), {"post": "yes"}).status_code == 403
    with scope.tenant(acme.tenant.pk):
        everybody = list(Membership.objects.values_list("pk", flat=True))
    client.post(
        MEMBERS, {"action": "delete_selected", "_selected_action": everybody, "post": "yes"}
    )
    assert role_of(acme, acme.owner) == Role.OWNER


def test_an_owner_makes_an_owner(acme: World) -> None:
    of(acme.owner).post(member_page(acme, acme.admin), {"role": "owner"})
    assert role_of(acme, acme.admin) == Role.OWNER


def test_an_operator_adds_a_member_to_a_tenant(operator: Client, acme: World) -> None:
    person("friend")
    data = {"username": "friend", "role": "owner", "tenant": acme.tenant.pk}
    assert operator.post(f"{MEMBERS}add/", data).status_code == 302
    assert role_of(acme, User.objects.get(username="friend")) == Role.OWNER


def test_an_operator_creates_a_tenant_and_a_person(operator: Client) -> None:
    tenant = {
        "name": "Initech",
        "slug": "initech",
        "weight": "2.5",
        "default_priority": "batch",
        "highest_priority": "standard",
    }
    refused = operator.post("/admin/tenants/tenant/add/", tenant | {"weight": "0"})
    assert "0.01" in refused.content.decode()
    operator.post("/admin/tenants/tenant/add/", tenant)
    made = Tenant.objects.get(slug="initech")
    assert (made.weight, made.default_priority) == (2.5, "batch")
    password = "a long enough passphrase"
    data = {
        "username": "peter",
        "usable_password": "true",
        "password1": password,
        "password2": password,
    }
    assert operator.post("/admin/auth/user/add/", data).status_code == 302
    assert User.objects.get(username="peter").check_password(password)


@pytest.mark.parametrize("role", ["admin", "owner"])
def test_nobody_reads_a_conversation_in_the_admin(role: str, operator: Client, acme: World) -> None:
    furnish(acme)
    talk = first(Conversation)(acme)
    for client in (of(getattr(acme, role)), operator):
        for page in ("", f"{talk.pk}/change/", f"{talk.pk}/history/"):
            content = client.get(f"/admin/streaming/conversation/{page}").content.decode()
            assert talk.pk in content
            assert "secret" not in content
        deletion = client.get(f"/admin/auth/user/{acme.member.pk}/delete/")
        assert "secret" not in deletion.content.decode()
        assert client.get("/admin/streaming/message/").status_code == 404


@pytest.mark.parametrize(
    "model",
    [
        "inference/checkpoint",
        "inference/generation",
        "inference/replaykey",
        "streaming/conversation",
    ],
)
def test_records_are_for_reading(model: str, operator: Client, acme: World) -> None:
    furnish(acme)
    row = next(
        sample.find(acme)
        for kind, sample in SAMPLES.items()
        if kind._meta.label_lower == model.replace("/", ".")
    )
    for client in (of(acme.owner), operator):
        assert client.get(f"/admin/{model}/{row.pk}/change/").status_code == 200
        for page in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
            assert client.post(f"/admin/{model}/{page}", {"post": "yes"}).status_code == 403


def test_an_admin_that_knows_no_rules_is_not_registered() -> None:
    from django.contrib.admin import ModelAdmin

    site = ConsoleSite()
    site.register(Tenant, ModelAdmin)
    site.register(User)
    assert site._registry == {}
