"""Changes: of what was seen alone, strictly read, and no further than the caller's own reach."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from tenants import scope
from tenants.models import ApiKey, Tenant
from tenants.services.keys import issue_key
from tests.console.api.callers import Callers, admin_key, client_of, problem
from tests.tenants.recorded import new_records
from tests.tenants.worlds import World


def own(world: World, rest: str = "") -> str:
    return f"/tenants/{world.tenant.pk}{rest}"


def test_of_two_who_change_limits_the_second_is_told(callers: Callers, acme: World) -> None:
    operator, path = callers["operator"], own(acme, "/limits")
    seen = operator.get(path)["ETag"]
    first = operator.patch(path, {"weight": 2}, If_Match=seen)
    assert first.status_code == 200
    problem(operator.patch(path, {"weight": 3}, If_Match=seen), 412, "precondition_failed")
    assert Tenant.objects.get(pk=acme.tenant.pk).weight == 2
    assert operator.patch(path, {"weight": 3}, If_Match=first["ETag"]).json()["weight"] == 3
    problem(operator.patch(path, {"weight": 4}), 428, "precondition_required")


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ("", {"name": "n"}),
        ("/members/{member}", {"role": "auditor"}),
        ("/service-accounts/{account}", {"name": "n"}),
        ("/keys/{key}", {"name": "n"}),
    ],
)
def test_elsewhere_it_may_be_asked_for(
    rest: str, body: dict[str, Any], callers: Callers, acme: World
) -> None:
    path = own(acme, rest.format(member=acme.member.pk, account=acme.account.pk, key=acme.key.pk))
    operator = callers["operator"]
    seen = operator.get(path)["ETag"]
    problem(operator.patch(path, body, If_Match='"other"'), 412, "precondition_failed")
    assert operator.patch(path, body, If_Match=seen).status_code == 200
    problem(operator.patch(path, body, If_Match=seen), 412, "precondition_failed")


BODIES = [
    ("", 400, "invalid_request"),
    ("{", 400, "invalid_json"),
    ("[]", 400, "invalid_json"),
    ('{"name": "a", "name": "b"}', 400, "invalid_json"),
    ('{"name": NaN}', 400, "invalid_json"),
    ('{"name": ' + "[" * 9 + "]" * 9 + "}", 400, "invalid_json"),
    ("[" * 30_000, 400, "invalid_json"),
    ('{"name": ' + "9" * 5000 + "}", 400, "invalid_json"),
    ('{"name": 7}', 400, "invalid_request"),
    ('{"name": "a\\u0000b"}', 400, "invalid_request"),
    ('{"name": "\\ud800"}', 400, "invalid_request"),
    ('{"name": "x", "is_active": true}', 400, "invalid_request"),
    ('{"name": "' + "x" * 101 + '"}', 400, "invalid_request"),
    ('{"name": "' + "x" * 70_000 + '"}', 413, "request_too_large"),
]


@pytest.mark.parametrize(("body", "status", "code"), BODIES, ids=lambda value: repr(value)[:24])
def test_bodies_are_read_strictly(
    body: str, status: int, code: str, callers: Callers, acme: World
) -> None:
    response = callers["owner"].client.post(
        f"/api/v1{own(acme, '/service-accounts')}", body, content_type="application/json"
    )
    problem(response, status, code)


def test_faults_are_told_where_they_are(callers: Callers, acme: World) -> None:
    body = {"service_account_id": 5, "name": "", "scopes": ["chat", "x"], "a/b~": 1}
    told = problem(callers["owner"].post(own(acme, "/keys"), body), 400, "invalid_request")
    assert [each["pointer"] for each in told["errors"]] == ["/a~1b~0"]
    del body["a/b~"]
    told = problem(callers["owner"].post(own(acme, "/keys"), body), 400, "invalid_request")
    pointers = {each["pointer"] for each in told["errors"]}
    assert pointers == {"/service_account_id", "/name", "/scopes/1"}


def test_other_media_types_and_queries_are_refused(callers: Callers, acme: World) -> None:
    owner = callers["owner"]
    response = owner.client.post(f"/api/v1{own(acme, '/service-accounts')}", {"name": "x"})
    problem(response, 415, "unsupported_media_type")
    problem(owner.get("/me", Accept="text/html"), 406, "not_acceptable")
    for query in ("?statsu=active", "?status=", "?status=active&status=active", "?cursor=x"):
        problem(owner.get(own(acme, "/keys") + query), 400, "invalid_request")
    refused = owner.ask("PUT", own(acme), {})
    problem(refused, 405, "method_not_allowed")
    assert set(refused["Allow"].split(", ")) >= {"GET", "PATCH"}


def test_pages_have_everything_once_while_rows_come(callers: Callers, acme: World) -> None:
    def issue(name: str) -> None:
        with scope.tenant(acme.tenant.pk):
            issue_key(service_account=acme.account, name=name, actor=None, now=timezone.now())

    for number in range(7):
        issue(f"k{number}")
    with scope.tenant(acme.tenant.pk):
        before = set(ApiKey.objects.values_list("pk", flat=True))
        # All at one moment, so that only their ids tell them apart.
        ApiKey.objects.update(created_at=timezone.now())
    seen: list[str] = []
    path = own(acme, "/keys?limit=2")
    while path:
        response = callers["owner"].get(path)
        seen += [each["id"] for each in response.json()["data"]]
        issue("late")
        link = response.headers.get("Link", "")
        path = link.partition("<")[2].partition(">")[0].removeprefix("/api/v1")
        assert bool(path) == bool(response.json()["next_cursor"])
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


def test_a_cursor_is_of_its_list(callers: Callers, acme: World) -> None:
    cursor = callers["operator"].get(own(acme, "/audit?limit=1")).json()["next_cursor"]
    assert callers["operator"].get(own(acme, f"/audit?cursor={cursor}")).status_code == 200
    for path in ("/audit", own(acme, "/keys")):
        told = callers["operator"].get(f"{path}?cursor={cursor}")
        problem(told, 400, "invalid_request")


def test_keys_make_no_keys_that_manage(callers: Callers, acme: World) -> None:
    key, path = callers["admin_key"], own(acme, "/keys")
    body = {"service_account_id": acme.account.pk, "name": "k", "scopes": ["admin"]}
    with new_records() as told:
        problem(key.post(path, body), 403, "scope_not_yours")
        gain = key.patch(f"{path}/{acme.key.pk}", {"scopes": ["admin"]})
        problem(gain, 403, "scope_not_yours")
    assert [(each.action, each.outcome) for each in told] == [
        ("key.issue", "refused"),
        ("key.change", "refused"),
    ]
    other = client_of(key=admin_key(acme)).get("/me").json()["key_id"]
    problem(key.post(f"{path}/{other}/rotate", {}), 403, "scope_not_yours")
    problem(key.patch(f"{path}/{other}", {"networks": []}), 403, "scope_not_yours")
    itself = key.get("/me").json()["key_id"]
    assert key.post(f"{path}/{itself}/rotate", {}).status_code == 201
    assert callers["owner"].post(path, body).status_code == 201


def test_a_keys_reach_among_people_is_an_admins(callers: Callers, acme: World) -> None:
    key, path = callers["admin_key"], own(acme, "/members")
    told = key.patch(f"{path}/{acme.member.pk}", {"role": "owner"})
    problem(told, 403, "role_not_yours")
    problem(key.ask("DELETE", f"{path}/{acme.owner.pk}"), 403, "role_not_yours")
    assert key.ask("DELETE", f"{path}/{acme.admin.pk}").status_code == 204
    last = callers["operator"].ask("DELETE", f"{path}/{acme.owner.pk}")
    problem(last, 409, "last_owner")


def test_networks_of_a_key_hold_here_too(acme: World) -> None:
    far = client_of(key=admin_key(acme, networks=["192.0.2.0/24"]))
    problem(far.get("/me"), 403, "address_not_allowed")
    near = client_of(key=admin_key(acme, networks=["127.0.0.0/8"]))
    assert near.get("/me").status_code == 200


def test_deactivation_ends_sessions_and_if_asked_keys(callers: Callers, acme: World) -> None:
    with scope.tenant(acme.tenant.pk):
        issued, _ = issue_key(
            service_account=acme.account, name="k", actor=acme.member, now=timezone.now()
        )
    path = f"/people/{acme.member.pk}"
    others = Session.objects.count() - 1
    assert callers["member"].get("/me").status_code == 200
    told = callers["operator"].post(f"{path}/deactivate", {"revoke_keys": True})
    assert told.json()["is_active"] is False
    problem(callers["member"].get("/me"), 401, "invalid_api_key")
    assert Session.objects.count() == others
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.get(pk=issued.pk).revoked_at is not None
        assert ApiKey.objects.get(pk=acme.key.pk).revoked_at is None
    assert callers["operator"].post(f"{path}/activate").json()["is_active"] is True
    problem(callers["member"].get("/me"), 401, "invalid_api_key")


def test_a_suspended_tenant_lets_nobody_in(callers: Callers, acme: World) -> None:
    suspended = callers["operator"].post(own(acme, "/suspend"), {"reason": "Not paid."})
    assert suspended.json()["suspension_reason"] == "Not paid."
    again = callers["operator"].post(own(acme, "/suspend"), {"reason": "Not paid."})
    problem(again, 409, "already_suspended")
    problem(callers["admin_key"].get("/me"), 403, "tenant_suspended")
    problem(callers["owner"].get(own(acme)), 404, "tenant_not_found")
    callers["operator"].post(own(acme, "/resume"))
    assert callers["admin_key"].get("/me").status_code == 200


def test_a_limit_on_requests_has_its_place(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rest_framework.throttling import BaseThrottle

    from console.api.resources.me import Me

    class Never(BaseThrottle):
        def allow_request(self, request: Any, view: Any) -> bool:
            return False

        def wait(self) -> float:
            return 7

    monkeypatch.setattr(Me, "throttle_classes", (Never,))
    response = callers["owner"].get("/me")
    problem(response, 429, "rate_limited")
    assert response["Retry-After"] == "7"


def test_the_audit_log_is_narrowed_and_exported(callers: Callers, acme: World) -> None:
    callers["owner"].post(own(acme, "/service-accounts"), {"name": "x"}, X_Request_Id="request-1")
    found = callers["owner"].get(own(acme, "/audit?request_id=request-1")).json()["data"]
    assert [each["action"] for each in found] == ["service_account.create"]
    assert found[0]["actor_id"] == str(acme.owner.pk)
    none = callers["owner"].get(own(acme, "/audit?action=key.issue&until=2000-01-01T00:00:00Z"))
    assert none.json()["data"] == []
    assert callers["auditor"].get(own(acme, "/audit/export")).status_code == 200
    last = callers["auditor"].get(own(acme, "/audit?limit=1")).json()["data"][0]
    assert (last["action"], last["tenant_id"]) == ("audit.export", acme.tenant.pk)
    assert "password" not in json.dumps(found)
