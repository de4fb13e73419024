"""A tenant that is suspended keeps what it has; its people and keys are refused, and told why."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote
from django.db import IntegrityError, transaction
from django.test import Client

from kernel.errors import BadRequest, Conflict, PermissionDenied
from tenants import scope
from tenants.models import ApiKey, Membership, PlatformRole, Tenant
from tenants.services.keys import authenticate_key
from tenants.services.standing import memberships_of
from tenants.services.suspension import resume, suspend, suspended_tenants_of
from tests.tenants.recorded import new_records
from tests.tenants.worlds import NOW, World, person, platform_person

WHY = "The invoice of March is open; ask billing@example.org."


def test_suspended_and_resumed_with_nothing_lost(acme: World, globex: World) -> None:
    operator = platform_person(PlatformRole.OPERATOR)
    with new_records() as found:
        suspend(tenant=acme.tenant, reason=f"  {WHY}\n", actor=operator, now=NOW)
        assert memberships_of(acme.owner) == []
        assert [each.suspension_reason for each in suspended_tenants_of(acme.member)] == [WHY]
        with pytest.raises(PermissionDenied) as denial:
            authenticate_key(f"Bearer {acme.key_text}", now=NOW)
        assert denial.value.code == "tenant_suspended"
        authenticate_key(f"Bearer {globex.key_text}", now=NOW)
        with scope.tenant(acme.tenant.pk):
            assert (Membership.objects.count(), ApiKey.objects.count()) == (3, 1)
        resume(tenant=acme.tenant, actor=operator, now=NOW)
    authenticate_key(f"Bearer {acme.key_text}", now=NOW)
    assert suspended_tenants_of(acme.member) == []
    assert [(row.action, row.tenant_id) for row in found] == [
        ("tenant.suspend", acme.tenant.pk),
        ("tenant.resume", acme.tenant.pk),
    ]
    assert found[0].after == {"is_active": False, "suspension_reason": WHY}


def test_twice_is_refused_and_leaves_no_record(acme: World) -> None:
    with pytest.raises(Conflict):
        resume(tenant=acme.tenant, actor=None, now=NOW)
    suspend(tenant=acme.tenant, reason=WHY, actor=None, now=NOW)
    with new_records() as found, pytest.raises(Conflict):
        suspend(tenant=acme.tenant, reason="Another reason.", actor=None, now=NOW)
    assert found == []
    assert Tenant.objects.get(pk=acme.tenant.pk).suspension_reason == WHY


@pytest.mark.parametrize("reason", ["", " \n", "x" * 201], ids=["empty", "blank", "long"])
def test_a_reason_is_needed(acme: World, reason: str) -> None:
    with pytest.raises(BadRequest):
        suspend(tenant=acme.tenant, reason=reason, actor=None, now=NOW)
    assert Tenant.objects.get(pk=acme.tenant.pk).is_active


@pytest.mark.parametrize("role", ["owner", "admin", "auditor", "stranger"])
def test_operators_alone_decide(acme: World, globex: World, role: str) -> None:
    actors = {
        "owner": acme.owner,
        "admin": acme.admin,
        "auditor": platform_person(PlatformRole.AUDITOR),
        "stranger": globex.owner,
    }
    with pytest.raises(PermissionDenied):
        suspend(tenant=acme.tenant, reason=WHY, actor=actors[role], now=NOW)
    suspend(tenant=acme.tenant, reason=WHY, actor=None, now=NOW)
    with pytest.raises(PermissionDenied):
        resume(tenant=acme.tenant, actor=actors[role], now=NOW)


def test_a_reason_outlives_no_suspension(acme: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.filter(pk=acme.tenant.pk).update(suspension_reason=WHY)


def test_the_chat_tells_why(acme: World) -> None:
    client = Client()
    client.force_login(acme.member)
    suspend(tenant=acme.tenant, reason="Ask <b>billing</b>.", actor=None, now=NOW)
    answer = client.get("/chat/")
    assert answer.status_code == 403
    assert "is suspended" in answer.content.decode()
    assert "Ask &lt;b&gt;billing&lt;/b&gt;." in answer.content.decode()


def test_operators_suspend_in_the_admin_after_they_were_asked(acme: World) -> None:
    operator, auditor = person("root", superuser=True), platform_person(PlatformRole.AUDITOR)
    # As the tenant's own page links to it.
    page = f"/admin/tenants/tenant/{quote(acme.tenant.pk)}/suspend/"
    client, looking = Client(), Client()
    client.force_login(operator)
    looking.force_login(auditor)
    assert "Its data is kept" in client.get(page).content.decode()
    client.post(page, {"reason": ""})
    looking.post(page, {"reason": WHY})
    assert Tenant.objects.get(pk=acme.tenant.pk).is_active
    client.post(page, {"reason": WHY})
    assert not Tenant.objects.get(pk=acme.tenant.pk).is_active
    with new_records() as found:
        client.post(page, {"reason": WHY})
    assert [(row.action, row.decision) for row in found] == [("tenant.suspend", "denied")]
    client.get(page.replace("suspend", "resume"))
    assert not Tenant.objects.get(pk=acme.tenant.pk).is_active
    client.post(page.replace("suspend", "resume"))
    assert Tenant.objects.get(pk=acme.tenant.pk).is_active
