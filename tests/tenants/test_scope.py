from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.apps import apps
from django.contrib.auth.models import User

from kernel.database import database
from tenants import scope
from tenants.models import Membership, ServiceAccount
from tenants.models.scoped import ScopedModel
from tests.tenants.worlds import World

SCOPED = [model for model in apps.get_models() if issubclass(model, ScopedModel)]


def test_there_are_scoped_models() -> None:
    assert {model.__name__ for model in SCOPED} >= {"ApiKey", "Conversation", "Generation"}


@pytest.mark.parametrize("model", SCOPED)
def test_nothing_is_read_or_written_outside_a_scope(model: type[ScopedModel]) -> None:
    for attempt in (
        lambda: model.objects.all(),
        lambda: model.objects.count(),
        lambda: model._base_manager.all(),
        lambda: model().save(),
        lambda: model.objects.bulk_create([model()]),
    ):
        with pytest.raises(scope.ScopeMissing):
            attempt()


@pytest.mark.parametrize("model", SCOPED)
def test_every_manager_of_a_tenants_rows_asks_the_scope(model: type[ScopedModel]) -> None:
    managers = {*model._meta.managers, model._base_manager, model._default_manager}
    with scope.tenant("ten_nobody"):
        assert all("ten_nobody" in str(manager.all().query) for manager in managers)


def names(model: type[ScopedModel] = ServiceAccount) -> list[str]:
    return [str(row) for row in model.objects.order_by("pk")]


def test_a_scope_shows_its_tenant_alone(acme: World, globex: World) -> None:
    with scope.tenant(acme.tenant.pk):
        assert names() == ["acme-robot"]
        assert not ServiceAccount.objects.filter(pk=globex.account.pk).exists()
    with scope.whole_platform():
        assert sorted(names()) == ["acme-robot", "globex-robot"]


def test_a_foreign_row_in_hand_cannot_be_refreshed_followed_saved_or_updated(
    acme: World, globex: World
) -> None:
    with scope.whole_platform():
        foreign = ServiceAccount.objects.get(pk=globex.account.pk)
        key = globex.key.__class__.objects.get(pk=globex.key.pk)
    with scope.tenant(acme.tenant.pk):
        foreign.name = "stolen"
        with pytest.raises(scope.ScopeMismatch):
            foreign.save()
        with pytest.raises(scope.ScopeMismatch):
            ServiceAccount.objects.bulk_create([ServiceAccount(tenant=globex.tenant, name="x")])
        with pytest.raises(ServiceAccount.DoesNotExist):
            foreign.refresh_from_db()
        with pytest.raises(ServiceAccount.DoesNotExist):
            _ = key.service_account
        assert ServiceAccount.objects.filter(pk=foreign.pk).update(name="stolen") == 0
    with scope.whole_platform():
        assert "globex-robot" in names()


def test_a_row_never_moves_to_another_tenant(acme: World, globex: World) -> None:
    with scope.tenant(acme.tenant.pk):
        with pytest.raises(scope.ScopeMismatch):
            ServiceAccount.objects.update(tenant=globex.tenant)
        acme.account.tenant = globex.tenant
        with pytest.raises(scope.ScopeMismatch):
            acme.account.save()


def test_scopes_nest_and_end_even_by_an_error() -> None:
    with scope.tenant("a"):
        with pytest.raises(KeyError), scope.whole_platform():
            raise KeyError
        assert scope.current().tenant_id == "a"
    with pytest.raises(scope.ScopeMissing):
        scope.current()


def test_a_new_thread_starts_without_a_scope() -> None:
    seen: list[object] = []

    def look() -> None:
        try:
            seen.append(scope.current())
        except scope.ScopeMissing as missing:
            seen.append(missing)

    with scope.tenant("a"), ThreadPoolExecutor(1) as pool:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        pool.submit(look).result()
    assert [type(one) for one in seen] == [scope.ScopeMissing] * 2


async def test_tasks_of_two_tenants_do_not_mix() -> None:
    async def work(tenant_id: str) -> list[str | None]:
        seen = []
        with scope.tenant(tenant_id):
            for _ in range(5):
                await asyncio.sleep(0)
                seen.append(scope.current().tenant_id)
        return seen

    assert await asyncio.gather(work("a"), work("b")) == [["a"] * 5, ["b"] * 5]
    with pytest.raises(scope.ScopeMissing):
        scope.current()


@pytest.mark.django_db(transaction=True)
async def test_database_carries_the_scope_and_leaves_none_behind() -> None:
    with scope.tenant("a"):
        assert (await database(scope.current)).tenant_id == "a"
    for _ in range(20):
        with pytest.raises(scope.ScopeMissing):
            await database(scope.current)


def test_deleting_a_person_removes_what_is_theirs_in_sight(acme: World) -> None:
    with scope.whole_platform():
        User.objects.get(pk=acme.member.pk).delete()
        assert not Membership.objects.filter(user_id=acme.member.pk).exists()
