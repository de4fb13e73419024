"""What is asked for again with its Idempotency-Key is done once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from kernel.errors import Conflict
from tenants import scope
from tenants.models import ApiKey, IdempotencyKey, ServiceAccount
from tenants.services import idempotency
from tenants.services.idempotency import Claim, Reply
from tests.console.api.callers import Callers, problem
from tests.tenants.recorded import new_records
from tests.tenants.worlds import NOW, World

NEW = {"name": "new"}


def accounts(world: World) -> int:
    with scope.tenant(world.tenant.pk):
        return int(ServiceAccount.objects.filter(name="new").count())


def address(world: World, kind: str = "service-accounts") -> str:
    return f"/tenants/{world.tenant.pk}/{kind}"


def test_the_same_request_is_answered_as_the_first_time(callers: Callers, acme: World) -> None:
    with new_records() as told:
        first, second = (
            callers["owner"].post(address(acme), NEW, Idempotency_Key="k1") for _ in range(2)
        )
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert "Idempotency-Replayed" not in first
    assert second["Idempotency-Replayed"] == "true"
    for name in ("ETag", "Location"):
        assert first[name] == second[name]
    assert accounts(acme) == 1
    assert [each.action for each in told] == ["service_account.create"]


def test_another_request_with_the_key_is_refused(callers: Callers, acme: World) -> None:
    owner = callers["owner"]
    owner.post(address(acme), NEW, Idempotency_Key="k1")
    for path, body in ((address(acme), {"name": "other"}), (address(acme, "members"), NEW)):
        told = owner.post(path, body, Idempotency_Key="k1")
        if path == address(acme):
            problem(told, 409, "idempotency_conflict")
        else:
            assert told.status_code == 400  # not valid by itself, whatever its key
    assert accounts(acme) == 1


def test_a_key_is_its_senders_own(callers: Callers, acme: World, globex: World) -> None:
    assert callers["owner"].post(address(acme), NEW, Idempotency_Key="k").status_code == 201
    problem(callers["admin"].post(address(acme), NEW, Idempotency_Key="k"), 409, "name_taken")
    mine = callers["strange_key"].post(address(globex), NEW, Idempotency_Key="k")
    assert mine.status_code == 201
    assert "Idempotency-Replayed" not in mine


def test_what_was_refused_leaves_its_key_free(callers: Callers, acme: World) -> None:
    taken = {"name": acme.account.name}
    for _ in range(2):
        problem(
            callers["owner"].post(address(acme), taken, Idempotency_Key="k1"), 409, "name_taken"
        )
    assert not IdempotencyKey.objects.exists()
    assert callers["owner"].post(address(acme), NEW, Idempotency_Key="k1").status_code == 201


def test_a_keys_secret_is_told_once_and_kept_nowhere(callers: Callers, acme: World) -> None:
    body = {"service_account_id": acme.account.pk, "name": "k"}
    first, second = (
        callers["owner"].post(address(acme, "keys"), body, Idempotency_Key="k1") for _ in range(2)
    )
    secret = first.json()["secret"]
    assert secret.startswith(first.json()["prefix"])
    assert second.json() == first.json() | {"secret": None}
    kept = str(list(IdempotencyKey.objects.values()))
    assert secret not in kept
    assert secret.split("_")[3] not in kept
    with scope.tenant(acme.tenant.pk):
        assert ApiKey.objects.filter(name="k").count() == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_keys_that_are_none(key: str, callers: Callers, acme: World) -> None:
    told = callers["owner"].post(address(acme), NEW, Idempotency_Key=key)
    problem(told, 400, "invalid_request")
    assert accounts(acme) == 0


# -- The service


def begin(now: Any = NOW, request: bytes = b"r") -> Claim | Reply:
    return idempotency.begin(principal="user:1", key="k", request=request, now=now)


def begun(now: Any = NOW) -> Claim:
    claim = begin(now)
    assert isinstance(claim, Claim)
    return claim


def test_who_comes_meanwhile_is_told_to_wait(db: None) -> None:
    begun()
    with pytest.raises(Conflict) as told:
        begin(NOW + timedelta(seconds=59))
    assert (told.value.code, told.value.retry_after_s) == ("idempotency_in_progress", 1)
    with pytest.raises(Conflict) as other:
        begin(request=b"other")
    assert other.value.code == "idempotency_conflict"


def test_the_claim_of_a_dead_process_lapses_and_is_worth_nothing_then(db: None) -> None:
    dead = begun()
    heir = begun(NOW + timedelta(seconds=60))
    with pytest.raises(Conflict):
        idempotency.hold(dead)
    idempotency.give_up(dead)
    idempotency.hold(heir)
    idempotency.keep(heir, Reply(201, "{}", {}))
    idempotency.keep(dead, Reply(500, "", {}))
    assert begin(NOW + timedelta(seconds=61)) == Reply(201, "{}", {})


def test_answers_are_forgotten_in_time(db: None) -> None:
    claim = begun()
    idempotency.keep(claim, Reply(201, "{}", {}))
    day = timedelta(days=1)
    assert begin(NOW + day - timedelta(seconds=1)) == Reply(201, "{}", {})
    assert idempotency.forget_expired(NOW + day - timedelta(seconds=1)) == 0
    assert isinstance(begin(NOW + day), Claim)
    assert idempotency.forget_expired(NOW + 2 * day, dry_run=True) == 1
    assert idempotency.forget_expired(NOW + 2 * day) == 1
    assert not IdempotencyKey.objects.filter(claimed_at__lt=timezone.now()).exists()
