"""The audit log in the admin: who sees what of it, how it's searched, and what is exported."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import audit_export
from tenants import audit_chain, scope
from tenants.audit_actions import AuditAction
from tenants.models import AuditRecord, PlatformRole, Role
from tenants.services import audit
from tests.tenants.recorded import recorded
from tests.tenants.worlds import World, joined, person, platform_person, world

LOG = "/admin/tenants/auditrecord/"
CSV, JSON_LINES = f"{LOG}export-csv/", f"{LOG}export-jsonl/"


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def write(where: World | None, actor: User | None = None, **fields: Any) -> AuditRecord:
    values: dict[str, Any] = {"now": timezone.now(), "actor": actor} | fields
    tenant_id = where.tenant.pk if where else None
    with transaction.atomic():
        action = values.pop("action", AuditAction.SERVICE_ACCOUNT_CHANGE)
        return audit.record(action, tenant_id=tenant_id, **values)


def shown(client: Client, **query: str) -> set[int]:
    response = client.get(LOG, query)
    assert response.status_code == 200
    return {row.pk for row in response.context["cl"].result_list}


def test_each_sees_their_tenants_and_auditors_of_the_platform_all(
    acme: World, globex: World
) -> None:
    ours, theirs, platforms = write(acme), write(globex), write(None)
    auditor = joined(acme, person("auditor", staff=True), Role.AUDITOR)
    for somebody in (acme.owner, acme.admin, auditor):
        seen = shown(of(somebody))
        assert ours.pk in seen
        assert not seen & {theirs.pk, platforms.pk}
        assert of(somebody).get(f"{LOG}{ours.pk}/change/").status_code == 200
        assert of(somebody).get(f"{LOG}{theirs.pk}/change/").status_code == 302
    everything = {ours.pk, theirs.pk, platforms.pk}
    for role in (PlatformRole.AUDITOR, PlatformRole.OPERATOR):
        assert everything <= shown(of(platform_person(role)))


@pytest.mark.parametrize("who", ["owner", "auditor", "operator"])
def test_nobody_writes_there(who: str, acme: World) -> None:
    row = write(acme)
    somebody = {
        "owner": lambda: acme.owner,
        "auditor": lambda: joined(acme, person("auditor", staff=True), Role.AUDITOR),
        "operator": lambda: person("root", superuser=True),
    }[who]()
    client = of(somebody)
    for page in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
        assert client.post(f"{LOG}{page}", {"post": "yes", "action": "x"}).status_code == 403
    client.post(
        LOG, {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
    )
    assert row.pk in shown(client)


def test_filters_and_search(acme: World) -> None:
    now = timezone.now()
    old = write(acme, now=now - timedelta(days=3), action=AuditAction.KEY_REVOKE)
    new = write(acme, acme.admin, target=acme.account)
    about = write(acme, target=audit.Target("member", str(acme.member.pk)))
    client = of(acme.owner)
    assert old.pk not in shown(client, period="day")
    assert {old.pk, new.pk} <= shown(client, period="week")
    assert shown(client, action="key.revoke") == {old.pk}
    assert shown(client, outcome="failed") == set()
    assert shown(client, q=acme.account.pk) == {new.pk}
    assert new.pk in shown(client, q="acme-admin")
    assert shown(client, q="acme-member") == {about.pk}
    assert shown(client, q="globex-admin") == set()
    assert {old.pk, new.pk} <= shown(client, period="nonsense")


def test_a_page_names_members_and_no_stranger(acme: World) -> None:
    write(acme, acme.admin)
    write(acme, stranger := person("a-secret-operator", superuser=True))
    page = of(acme.owner).get(LOG).content.decode()
    assert "acme-admin" in page
    assert "a-secret-operator" not in page
    assert f"user:{stranger.pk}" in page
    assert "a-secret-operator" in of(stranger).get(LOG).content.decode()


def test_records_of_a_deleted_tenant_are_shown(operator: Client) -> None:
    gone = world("gone")
    row = write(gone)
    with scope.whole_platform():
        for model in (gone.key, gone.account, *_memberships(gone), gone.tenant):
            model.delete()
    row_page = operator.get(f"{LOG}{row.pk}/change/").content.decode()
    assert str(row.tenant_id) in row_page
    assert str(row.tenant_id) in operator.get(LOG).content.decode()


def _memberships(where: World) -> list[Any]:
    from tenants.models import Membership

    return list(Membership.objects.filter(tenant=where.tenant))


def queries_for(client: Client, **query: str) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(LOG, query).status_code == 200
    return [each["sql"] for each in captured.captured_queries if "auditrecord" in each["sql"]]


def test_a_list_counts_nothing_and_costs_the_same_however_long(acme: World) -> None:
    auditor = of(joined(acme, person("auditor", staff=True), Role.AUDITOR))
    few = queries_for(auditor)
    for _ in range(60):
        write(acme, acme.admin)
    many = queries_for(auditor)
    assert len(few) == len(many) == 1
    for query in ({}, {"q": "acme-admin"}, {"period": "day", "action": "sign_in"}, {"p": "2"}):
        for sql in queries_for(auditor, **query):
            assert "COUNT(" not in sql
            assert "DISTINCT" not in sql
            assert "LIMIT" in sql


@pytest.mark.parametrize("page", [CSV, JSON_LINES])
def test_auditors_alone_export(page: str, acme: World) -> None:
    for somebody in (acme.owner, acme.admin, person("root", superuser=True)):
        assert of(somebody).get(page).status_code == 403
        assert page not in of(somebody).get(LOG).content.decode()
    auditor = of(joined(acme, person("auditor", staff=True), Role.AUDITOR))
    assert f"{page}?period=day" in auditor.get(LOG, {"period": "day"}).content.decode()
    assert Client().get(page).status_code == 302


# -- What is exported. Read past the transaction of a test, so these commit.


@pytest.fixture
def audited(transactional_db: None) -> tuple[World, World, Client]:
    """Two tenants' records, and an auditor of the first."""
    acme, globex = world("acme"), world("globex")
    for number in range(5):
        write(acme, acme.admin, after={"name": f"acme {number}"})
        write(globex, globex.admin, after={"name": f"globex {number}"})
    return acme, globex, of(joined(acme, person("auditor", staff=True), Role.AUDITOR))


def body(client: Client, page: str, **query: str) -> str:
    response = client.get(page, query)
    assert response.status_code == 200
    assert response.streaming
    assert "attachment" in response["Content-Disposition"]
    assert "no-store" in response["Cache-Control"]
    return b"".join(response).decode()


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse")
def test_json_lines_hold_ones_tenants_records_and_can_be_verified(
    audited: tuple[World, World, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_export, "AT_ONCE", 2)
    acme, _globex, auditor = audited
    lines = [json.loads(line) for line in body(auditor, JSON_LINES).splitlines()]
    mine = [row for row in recorded() if row.tenant_id == acme.tenant.pk]
    assert [line["seq"] for line in lines] == [row.seq for row in mine]
    assert {line["tenant_id"] for line in lines} == {acme.tenant.pk}
    assert "globex" not in str(lines)
    for line in lines:
        assert set(line) == {*audit_chain.FIELDS, "hash"}
    told = recorded("audit.export")[-1]
    assert (told.tenant_id, told.after["format"]) == (acme.tenant.pk, "jsonl")
    # The export's own record is the last of it.
    assert lines[-1]["seq"] == told.seq


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse")
def test_an_export_holds_what_is_listed(audited: tuple[World, World, Client]) -> None:
    _acme, _globex, auditor = audited
    rows = list(csv.DictReader(io.StringIO(body(auditor, CSV, action="key.issue"))))
    assert [row["action"] for row in rows] == ["key.issue"]
    assert "key.issue" in recorded("audit.export")[-1].after["filters"]
    assert auditor.get(CSV, {"nonsense": "1"}).status_code in {302, 400}


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse")
def test_a_spreadsheet_is_given_no_formula(audited: tuple[World, World, Client]) -> None:
    acme, _globex, auditor = audited
    write(acme, reason='=HYPERLINK("http://x")', target=audit.Target("thing", "@SUM(A1)"))
    rows = list(csv.DictReader(io.StringIO(body(auditor, CSV))))
    assert rows[-2]["reason"].startswith("'=")
    assert rows[-2]["object_id"].startswith("'@")


@pytest.mark.django_db(transaction=True)
async def test_the_server_streams_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is served: page by page in the event loop, and outside of the request's scope."""
    from asgiref.sync import sync_to_async

    def build() -> tuple[World, User]:
        acme = world("acme")
        for _ in range(5):
            write(acme)
        return acme, joined(acme, person("auditor", staff=True), Role.AUDITOR)

    monkeypatch.setattr(audit_export, "AT_ONCE", 2)
    acme, auditor = await sync_to_async(build)()
    client = AsyncClient()
    await client.aforce_login(auditor)
    response = await client.get(JSON_LINES)
    with pytest.raises(scope.ScopeMissing):
        scope.current()
    chunks = [chunk async for chunk in response]  # type: ignore[union-attr]
    assert len(chunks) >= 3
    lines = b"".join(chunks).decode().splitlines()
    assert {json.loads(line)["tenant_id"] for line in lines} == {acme.tenant.pk}
