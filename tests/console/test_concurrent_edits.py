"""Two people at the same form: the second is told what changed, and nothing is lost."""

from __future__ import annotations

import threading
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from console.concurrent_edits import FIELD
from inference.models import Release, Route
from tenants import scope
from tenants.models import Membership, Role, ServiceAccount, Tenant
from tests.console.test_writes_are_recorded import TENANT
from tests.tenants.recorded import new_records
from tests.tenants.worlds import World, joined, person, world


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


class Seen(HTMLParser):
    """Finds what a form was filled from."""

    value = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fields = dict(attrs)
        if fields.get("name") == FIELD:
            self.value = fields["value"] or ""


def opened(client: Client, page: str) -> dict[str, str]:
    """What the form there sends along."""
    return seen_in(client.get(page))


def seen_in(answer: Any) -> dict[str, str]:
    parser = Seen()
    parser.feed(answer.content.decode())
    assert parser.value
    return {FIELD: parser.value}


def told(answer: Any) -> str:
    assert answer.status_code == 200
    return " ".join(answer.context["adminform"].form.non_field_errors())


def test_two_operators_at_one_tenants_limits(operator: Client, acme: World) -> None:
    page = f"/admin/tenants/tenant/{acme.tenant.pk}/change/"
    mine, theirs = opened(operator, page), opened(operator, page)
    changed = TENANT | {"weight": "3.0", "highest_priority": "standard"}
    assert operator.post(page, changed | theirs).status_code == 302
    with new_records() as found:
        answer = operator.post(page, TENANT | {"name": "Mine"} | mine)
    assert "weight: 1.0 → 3.0; highest priority: interactive → standard" in told(answer)
    assert found == []
    kept = Tenant.objects.get(pk=acme.tenant.pk)
    assert (kept.name, kept.weight, kept.highest_priority) == ("acme and sons", 3.0, "standard")
    # What was entered is there still, and saving again is a decision.
    assert 'value="Mine"' in answer.content.decode()
    again = operator.post(page, TENANT | {"name": "Mine"} | seen_in(answer))
    assert again.status_code == 302
    assert Tenant.objects.get(pk=acme.tenant.pk).weight == 1.0


def test_saving_again_is_compared_anew(operator: Client, acme: World) -> None:
    page = f"/admin/tenants/tenant/{acme.tenant.pk}/change/"
    mine = opened(operator, page)
    Tenant.objects.filter(pk=acme.tenant.pk).update(weight=3.0)
    mine = seen_in(operator.post(page, TENANT | mine))
    Tenant.objects.filter(pk=acme.tenant.pk).update(weight=4.0)
    assert "weight: 3.0 → 4.0" in told(operator.post(page, TENANT | mine))


def test_two_managers_at_one_membership(acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        row = Membership.objects.get(user=acme.member)
    page = f"/admin/tenants/membership/{row.pk}/change/"
    owner, admin = of(acme.owner), of(acme.admin)
    mine, theirs = opened(admin, page), opened(owner, page)
    assert owner.post(page, {"role": Role.BILLING} | theirs).status_code == 302
    assert "role: member → billing" in told(admin.post(page, {"role": Role.AUDITOR} | mine)).lower()
    with scope.tenant(acme.tenant.pk):
        assert Membership.objects.get(pk=row.pk).role == Role.BILLING


def test_two_managers_at_one_service_account(acme: World) -> None:
    page = f"/admin/tenants/serviceaccount/{acme.account.pk}/change/"
    client = of(acme.admin)
    mine = opened(client, page)
    with scope.tenant(acme.tenant.pk):
        ServiceAccount.objects.filter(pk=acme.account.pk).update(is_active=False)
    answer = client.post(page, {"name": "renamed", "is_active": "on"} | mine)
    assert "active: yes → no" in told(answer).lower()


def test_a_route_to_another_release_is_told_by_its_name(operator: Client) -> None:
    old, new = (
        Release.objects.create(name=name, engine="fake", context_tokens=64)
        for name in ("before", "after")
    )
    route = Route.objects.create(name="model", release=old)
    page = f"/admin/inference/route/{route.pk}/change/"
    mine = opened(operator, page)
    Route.objects.filter(pk=route.pk).update(release=new)
    fields = {"name": "renamed", "release": old.pk, "is_active": "on", "detached": "hold"}
    assert "release: before → after" in told(operator.post(page, fields | mine)).lower()
    assert Route.objects.get(pk=route.pk).release == new


def test_who_is_alone_is_not_bothered(operator: Client, acme: World) -> None:
    page = f"/admin/tenants/tenant/{acme.tenant.pk}/change/"
    assert (
        operator.post(page, TENANT | {"weight": "2.0"} | opened(operator, page)).status_code == 302
    )
    # Nor is a program that sends no more than the fields, or nonsense.
    assert operator.post(page, TENANT).status_code == 302
    assert operator.post(page, TENANT | {FIELD: "[nonsense"}).status_code == 302


def test_a_form_carries_no_more_than_it_shows(operator: Client, acme: World) -> None:
    acme.member.set_password("a long enough canary-passphrase")
    acme.member.save()
    carried = opened(operator, f"/admin/auth/user/{acme.member.pk}/change/")[FIELD]
    assert "pbkdf2" not in carried
    assert "password" not in carried


def test_signing_in_meanwhile_is_no_change_of_the_account(operator: Client, acme: World) -> None:
    page = f"/admin/auth/user/{acme.member.pk}/change/"
    mine = opened(operator, page)
    of(acme.member)  # sets last_login
    fields = {"username": acme.member.username, "is_active": "on", "first_name": "Ada"}
    assert operator.post(page, fields | mine).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_very_same_moment_one_is_told() -> None:
    acme = world("acme")
    joined(acme, person("second"), Role.OWNER)
    client = Client()
    client.force_login(person("operator", superuser=True))
    page = f"/admin/tenants/tenant/{acme.tenant.pk}/change/"
    for round_ in range(5):
        seen = opened(client, page)
        together, statuses = threading.Barrier(2), list[int]()

        def save(
            weight: float,
            seen: dict[str, str] = seen,
            together: threading.Barrier = together,
            statuses: list[int] = statuses,
        ) -> None:
            mine = Client()
            mine.cookies = client.cookies
            together.wait()
            try:
                statuses.append(
                    mine.post(page, TENANT | {"weight": str(weight)} | seen).status_code
                )
            finally:
                connection.close()

        threads = [
            threading.Thread(target=save, args=(10 + 2 * round_ + number,)) for number in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 302]
