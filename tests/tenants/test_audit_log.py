"""What an audit record holds, and that nobody can write it anew."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel import origin
from tenants import audit_chain, scope
from tenants.audit_actions import AuditAction
from tenants.models import AppendOnly, AuditHead, AuditRecord, Tenant
from tenants.principal import Principal
from tenants.services import audit
from tests.ground.flushing import append_only
from tests.tenants.worlds import NOW, World, person

pytestmark = pytest.mark.django_db


def write(**fields: Any) -> AuditRecord:
    values: dict[str, Any] = {"actor": None, "now": NOW, "tenant_id": None} | fields
    with transaction.atomic():
        return audit.record(values.pop("action", AuditAction.TENANT_CHANGE), **values)


def everything() -> list[AuditRecord]:
    with scope.whole_platform():
        return list(AuditRecord.objects.order_by("seq"))


def last() -> AuditRecord:
    return everything()[-1]


def verify() -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out)
    return out.getvalue()


# -- What a record holds


def test_a_record_tells_who_did_what_to_what_and_from_where(acme: World) -> None:
    here = origin.Origin(request_id="req_1", ip="192.0.2.7", session="abc")
    with origin.entered(here):
        write(
            action=AuditAction.TENANT_CHANGE,
            actor=acme.owner,
            tenant_id=acme.tenant.pk,
            target=acme.tenant,
            before={"weight": 1.0, "name": "Acme"},
            after={"weight": 2.5, "name": "Acme"},
        )
    row = last()
    assert (row.actor_type, row.actor_id, row.session) == ("user", str(acme.owner.pk), "abc")
    assert (row.auth_method, row.ip, row.request_id) == ("session", "192.0.2.7", "req_1")
    assert (row.object_type, row.object_id) == ("tenant", acme.tenant.pk)
    assert (row.before, row.after) == ({"weight": "1.0"}, {"weight": "2.5"})
    assert (row.at, row.tenant_id, row.decision, row.outcome) == (
        NOW,
        acme.tenant.pk,
        "allowed",
        "done",
    )


def test_an_application_is_told_with_its_key_and_a_hand_at_a_terminal_by_its_login() -> None:
    write(actor=Principal("ten_1", "service_account", "sva_1", key_id="k1"))
    assert (last().actor_type, last().actor_id, last().key_id) == ("service_account", "sva_1", "k1")
    assert last().auth_method == "api_key"
    with origin.entered(origin.Origin(login="root")):
        write()
    assert (last().actor_type, last().actor_id, last().auth_method) == (
        "system",
        "root",
        "command_line",
    )


def test_a_session_is_told_by_a_digest() -> None:
    key = "the key that signs in"
    assert key not in origin.digest_of(key)
    assert origin.digest_of(key) == origin.digest_of(key) != origin.digest_of("another")
    assert origin.digest_of(None) == ""


@pytest.mark.parametrize("name", sorted(audit.NEVER))
def test_fields_that_hold_what_people_say_or_secrets_are_refused(name: str, db: None) -> None:
    before = everything()
    for where in ("before", "after"):
        with pytest.raises(audit.NotForTheLog):
            write(**{where: {name: "x"}})
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_record_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(audit.NoTransaction):
        audit.record(AuditAction.SIGN_IN, actor=None, now=NOW, tenant_id=None)


@pytest.mark.django_db(transaction=True)
def test_what_was_rolled_back_left_no_record_and_no_gap() -> None:
    write()
    with transaction.atomic():
        audit.record(AuditAction.SIGN_IN, actor=None, now=NOW, tenant_id=None)
        transaction.set_rollback(True)
    write()
    assert [row.seq for row in everything()] == [1, 2]
    verify()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.datetimes(timezones=st.just(UTC))
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values, st.text(max_size=300), st.datetimes(timezones=st.just(UTC)))
def test_whatever_was_written_is_read_back_as_it_was_hashed(
    db: None, value: Any, text: str, at: datetime
) -> None:
    write(after={"value": value}, reason=text, now=at, target=audit.Target("thing", text))
    row = last()
    assert audit_chain.digest(row) == row.hash


# -- Nobody writes it anew


def test_the_model_refuses_to_change_or_delete(acme: World) -> None:
    row = write(tenant_id=acme.tenant.pk)
    row.action = "nothing"
    with scope.whole_platform():
        for attempt in (
            row.save,
            row.delete,
            AuditRecord.objects.all().delete,
            lambda: AuditRecord.objects.update(action="nothing"),
            lambda: AuditRecord.objects.bulk_create([AuditRecord()]),
            lambda: AuditRecord.objects.bulk_update([row], ["action"]),
        ):
            with pytest.raises(AppendOnly):
                attempt()


@pytest.mark.parametrize("statement", ["UPDATE {} SET action = 'x'", "DELETE FROM {}"])
def test_the_database_refuses_as_well(statement: str, db: None) -> None:
    write()
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
        _run(statement)
    assert last().action == "tenant.change"


def test_deleting_a_tenant_or_a_person_leaves_its_records() -> None:
    tenant, someone = Tenant.objects.create(slug="gone", name="Gone"), person("gone")
    write(tenant_id=tenant.pk, actor=someone, target=tenant)
    tenant_id = tenant.pk
    with scope.whole_platform():
        tenant.delete()
        someone.delete()
    assert last().tenant_id == tenant_id
    verify()


def test_a_scope_shows_its_tenants_records_alone(acme: World, globex: World) -> None:
    for tenant_id in (acme.tenant.pk, globex.tenant.pk, None):
        write(tenant_id=tenant_id, action=AuditAction.ROUTE_CHANGE)
    with scope.tenant(acme.tenant.pk):
        assert {row.tenant_id for row in AuditRecord.objects.all()} == {acme.tenant.pk}


# -- What is found where somebody got past all that


def _run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement.format("tenants_auditrecord"))


@pytest.fixture
def five(db: None) -> None:
    for weight in range(5):
        write(after={"weight": weight})
    assert "5 records" in verify()


@pytest.fixture
def lifted(five: None) -> None:
    append_only.allow(connection)


@pytest.mark.usefixtures("lifted")
@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE {} SET action = 'key.issue' WHERE seq = 3"], "3: it was changed"),
        (['UPDATE {} SET "after" = \'{{"weight": 9}}\' WHERE seq = 2'], "2: it was changed"),
        (["UPDATE {} SET actor_id = '1' WHERE seq = 5"], "5: it was changed"),
        (["UPDATE {} SET at = '2001-01-01 00:00:00+00:00' WHERE seq = 1"], "1: it was changed"),
        (["DELETE FROM {} WHERE seq = 3"], "4: records 3 to 3 are missing"),
        (["DELETE FROM {} WHERE seq = 1"], "2: records 1 to 1 are missing"),
        (["DELETE FROM {} WHERE seq > 3"], "the log ends at 3, not at 5"),
        (["DELETE FROM {}"], "the log ends at 0, not at 5"),
        (
            [
                "UPDATE {} SET seq = 99 WHERE seq = 2",
                "UPDATE {} SET seq = 2 WHERE seq = 3",
                "UPDATE {} SET seq = 3 WHERE seq = 99",
            ],
            "2: it does not follow from the record before it",
        ),
        (
            ["DELETE FROM {} WHERE seq = 2", "UPDATE {} SET seq = seq - 1 WHERE seq > 2"],
            "2: it does not follow from the record before it",
        ),
    ],
)
def test_what_was_changed_dropped_or_moved_is_found(statements: list[str], found: str) -> None:
    for statement in statements:
        _run(statement)
    with pytest.raises(CommandError, match=found):
        verify()


@pytest.mark.usefixtures("lifted")
def test_a_log_that_was_written_anew_is_found_by_a_note_of_its_end() -> None:
    with scope.whole_platform():
        noted = str(AuditHead.objects.get())
    call_command("verify_audit", expect=noted, stdout=StringIO())
    _run("DELETE FROM {}")
    AuditHead.objects.all().delete()
    for weight in range(7):
        write(after={"weight": weight + 1})
    assert "7 records" in verify()
    with pytest.raises(CommandError, match="was another when it was noted"):
        call_command("verify_audit", expect=noted, stdout=StringIO())


def test_a_lost_head_is_told(five: None) -> None:
    AuditHead.objects.all().delete()
    with pytest.raises(CommandError, match="the log ends at 5, not at 0"):
        verify()


@pytest.mark.parametrize("note", ["", "5", "x:y", "5:"])
def test_a_note_that_is_none_is_refused(note: str, db: None) -> None:
    with pytest.raises(CommandError, match="SEQ:HASH"):
        call_command("verify_audit", expect=note, stdout=StringIO())


# -- Many at once


@pytest.mark.django_db(transaction=True)
def test_many_at_once_make_one_chain() -> None:
    together = threading.Barrier(6)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            together.wait()
            for each in range(8):
                write(after={"weight": number * 100 + each})
        except BaseException as failure:  # noqa: BLE001 - told below
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [row.seq for row in everything()] == list(range(1, 49))
    assert "48 records" in verify()
