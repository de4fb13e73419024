"""The admin of one tenant, held against every page of every ModelAdmin, with another one's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db.models import ForeignKey, Model
from django.test import Client
from django.urls import NoReverseMatch, reverse

from tenants import scope
from tenants.models import ServiceAccount, Tenant
from tenants.models.scoped import ScopedModel
from tests.console.samples import SAMPLES, furnish
from tests.tenants.worlds import World, joined, person

REFUSED = {302, 403, 404, 405}
SCOPED = [model for model in apps.get_models() if issubclass(model, ScopedModel)]
MODELS = sorted(SAMPLES, key=lambda model: model._meta.label)


def belongings(world: World) -> dict[str, list[dict[str, Any]]]:
    """Every row of a world, as the database has it."""
    with scope.whole_platform():
        people = User.objects.filter(username__startswith=world.tenant.slug)
        rows: dict[str, list[dict[str, Any]]] = {
            model._meta.label: list(
                model.objects.filter(tenant=world.tenant).order_by("pk").values()
            )
            for model in SCOPED
        }
        return rows | {
            "people": list(people.order_by("pk").values()),
            "tenant": list(Tenant.objects.filter(pk=world.tenant.pk).values()),
        }


def nothing_points_across() -> None:
    with scope.whole_platform():
        for model in SCOPED:
            for field in model._meta.get_fields():
                if isinstance(field, ForeignKey) and issubclass(field.related_model, ScopedModel):
                    for row in model.objects.select_related(field.name):
                        assert row.tenant_id == getattr(row, field.name).tenant_id, (model, row.pk)


@pytest.fixture(params=["admin", "owner", "auditor"])
def intruder(request: pytest.FixtureRequest, acme: World, globex: World) -> Iterator[Client]:
    """One of acme's people; after the test, globex is as it was."""
    for world in (acme, globex):
        furnish(world)
    before = belongings(globex)
    client = Client(raise_request_exception=True)
    auditor = joined(acme, person("acme-auditor", staff=True), "auditor")
    client.force_login(auditor if request.param == "auditor" else getattr(acme, request.param))
    yield client
    assert belongings(globex) == before
    nothing_points_across()


def page(model: type[Model], name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def foreign_keys(model: type[Model], world: World) -> dict[str, Any]:
    """Form data that names this world's rows wherever a row can be named."""
    named: dict[str, Any] = {"tenant": world.tenant.pk, "tenant_id": world.tenant.pk}
    for field in model._meta.get_fields():
        if isinstance(field, ForeignKey) and field.related_model in SAMPLES:
            named[field.name] = SAMPLES[field.related_model].find(world).pk
    return named


def test_every_admin_has_a_sample() -> None:
    assert set(site._registry) == set(SAMPLES)


@pytest.mark.parametrize("model", MODELS)
def test_lists_search_and_filters_show_own_rows_alone(
    model: type[Model], intruder: Client, acme: World, globex: World
) -> None:
    sample = SAMPLES[model]
    theirs = sample.find(globex)
    admin: Any = site._registry[model]
    queries: list[dict[str, Any]] = [{}, {"q": "globex"}, {"q": str(theirs.pk)}, {"all": ""}]
    asked_for = {field.name for field in model._meta.concrete_fields} - set(admin.private_fields)
    queries += [{f"{name}__isnull": "False"} for name in sorted(asked_for)]
    queries += [{"tenant__id__exact": globex.tenant.pk}, {"o": "1"}, {"status": "active"}]
    for query in queries:
        response = intruder.get(page(model, "changelist"), query)
        if sample.operators_only:
            assert response.status_code == 403, query
        elif response.status_code == 200:
            shown = {row.pk for row in response.context["cl"].queryset}
            assert theirs.pk not in shown, query
            if "q" not in query and "tenant__id__exact" not in query:  # those are echoed
                assert "globex" not in response.content.decode(), query
        else:
            assert response.status_code == 302, query  # back to the list without the lookup
            assert "e=1" in response["Location"], query
    if not sample.operators_only:
        plain = intruder.get(page(model, "changelist")).context["cl"].queryset
        assert sample.find(acme).pk in {row.pk for row in plain}
        assert admin.get_search_fields(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("model", MODELS)
def test_no_page_of_a_foreign_row_opens(
    model: type[Model], method: str, intruder: Client, globex: World
) -> None:
    """Detail, delete, history, password, and whatever else an admin has for one row."""
    sample = SAMPLES[model]
    theirs = sample.find(globex)
    data = sample.post | {"post": "yes", "confirmed": "yes"}
    opened = []
    for name in {url.name for url in site._registry[model].get_urls() if url.name}:
        try:
            address = reverse(f"admin:{name}", args=(theirs.pk,))
        except NoReverseMatch:
            continue
        response = getattr(intruder, method)(address, data if method == "post" else {})
        assert "globex" not in response.content.decode(), address
        if response.status_code not in REFUSED:
            opened.append(name)
    harmless = {"tenants_apikey_revoke_one"}  # says that there is no such key
    assert set(opened) <= harmless


@pytest.mark.parametrize("model", MODELS)
def test_no_action_reaches_a_foreign_row(
    model: type[Model], intruder: Client, globex: World
) -> None:
    theirs = SAMPLES[model].find(globex)
    request = intruder.get(reverse("admin:index")).wsgi_request
    for action in {"delete_selected", *site._registry[model].get_actions(request)}:
        for across in ("0", "1"):
            response = intruder.post(
                page(model, "changelist"),
                {
                    "action": action,
                    "_selected_action": [theirs.pk],
                    "select_across": across,
                    "index": "0",
                    "post": "yes",
                    "confirmed": "yes",
                },
            )
            assert "globex" not in response.content.decode(), action


@pytest.mark.parametrize("model", MODELS)
def test_nothing_is_added_to_or_pointed_at_another_tenant(
    model: type[Model], intruder: Client, acme: World, globex: World
) -> None:
    sample = SAMPLES[model]
    mine = sample.find(acme)
    attacks = [
        (page(model, "add"), foreign_keys(model, globex)),
        (page(model, "add"), {**foreign_keys(model, acme), "tenant": globex.tenant.pk}),
        (page(model, "change", mine.pk), foreign_keys(model, globex)),
    ]
    for address, data in attacks:
        response = intruder.post(address, sample.post | data)
        assert "globex" not in response.content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_forms_offer_own_rows_alone(
    model: type[Model], intruder: Client, acme: World, globex: World
) -> None:
    for address in (page(model, "add"), page(model, "change", SAMPLES[model].find(acme).pk)):
        response = intruder.get(address)
        assert response.status_code in {200, 403}
        assert "globex" not in response.content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_autocomplete_finds_no_foreign_row(
    model: type[Model], intruder: Client, globex: World
) -> None:
    for other in MODELS:
        for field in other._meta.get_fields():
            if isinstance(field, ForeignKey) and field.related_model is model:
                response = intruder.get(
                    reverse("admin:autocomplete"),
                    {
                        "app_label": other._meta.app_label,
                        "model_name": other._meta.model_name,
                        "field_name": field.name,
                        "term": "globex",
                    },
                )
                assert "globex" not in response.content.decode()


@pytest.mark.parametrize(
    "path", ["", "tenants/", "inference/", "streaming/", "auth/", "search/?s=a", "jsi18n/"]
)
def test_pages_of_the_site_name_no_stranger(path: str, intruder: Client) -> None:
    response = intruder.get(reverse("admin:index") + path)
    assert response.status_code in {200, 404}
    assert "globex" not in response.content.decode()


@pytest.mark.parametrize("lookup", ["user__password__startswith", "tenant__slug", "user__email"])
def test_lookups_through_relations_are_refused(lookup: str, intruder: Client) -> None:
    response = intruder.get(reverse("admin:tenants_membership_changelist"), {lookup: "globex"})
    assert response.status_code == 400


def test_the_page_that_tells_ids_is_gone(intruder: Client, globex: World) -> None:
    for known in (globex.member.pk, 10**6):
        assert intruder.get(f"/admin/r/1/{known}/").status_code == 404


def test_recent_actions_are_ones_own(acme: World, globex: World) -> None:
    pages = []
    for manager in (globex.admin, acme.admin, acme.owner):
        client = Client()
        client.force_login(manager)
        if manager == globex.admin:
            client.post(
                page(ServiceAccount, "change", globex.account.pk),
                {"name": "globex-robot", "is_active": "on"},
            )
        pages.append("globex-robot" in client.get(reverse("admin:index")).content.decode())
    assert pages == [True, False, False]


def test_an_operator_sees_both(acme: World, globex: World, operator: Client) -> None:
    for world in (acme, globex):
        furnish(world)
    for model in MODELS:
        response = operator.get(page(model, "changelist"))
        shown = {row.pk for row in response.context["cl"].queryset}
        samples = SAMPLES[model]
        assert {samples.find(acme).pk, samples.find(globex).pk} <= shown
        assert operator.get(page(model, "change", samples.find(acme).pk)).status_code == 200
