"""Who comes into the admin, and that the scope lives exactly as long as their request."""

from __future__ import annotations

import asyncio
import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.test import AsyncClient, Client, RequestFactory, override_settings
from django.urls import path, reverse
from pytest_django.fixtures import Settings

from config import urls
from console.scope import AdminScopeMiddleware, access_of, actor_of
from tenants import scope
from tenants.models import Membership, PlatformGrant, PlatformRole, Role, ServiceAccount
from tests.tenants.worlds import World, joined, person, platform_person

INDEX = "/admin/"


def opens(user: User | None) -> bool:
    client = Client()
    if user is not None:
        client.force_login(user)
    response = client.get(INDEX)
    if response.status_code == 302:
        assert response["Location"].startswith(reverse("admin:login"))
        # To the sign-in page; or, for who is signed in, no further: both led on would never end.
        led = client.get(response["Location"])
        signed_in = user is not None and user.is_active
        assert led.status_code == (403 if signed_in else 302)
        assert signed_in or led["Location"] == f"/login/?next={INDEX}"
    return response.status_code == 200


def test_managers_and_operators_come_in(acme: World) -> None:
    assert opens(acme.owner)
    assert opens(acme.admin)
    assert opens(person("root", superuser=True))


def test_auditors_billing_clerks_and_everyone_of_the_platform_come_in(acme: World) -> None:
    for role in (Role.BILLING, Role.AUDITOR):
        assert opens(joined(acme, person(f"acme-{role}", staff=True), role))
    for platform_role in PlatformRole:
        assert opens(platform_person(platform_role))


def test_nobody_else_does(acme: World) -> None:
    retired = person("retired", superuser=True)
    retired.is_active = False
    retired.save()
    assert not opens(None)
    assert not opens(acme.member)
    assert not opens(person("staff-alone", staff=True))
    assert not opens(joined(acme, person("not-staff"), Role.OWNER))
    assert not opens(retired)
    assert not opens(joined(acme, person("chatter", staff=True), Role.MEMBER))


def test_managers_of_an_inactive_tenant_do_not(acme: World) -> None:
    acme.tenant.is_active = False
    acme.tenant.save()
    assert not opens(acme.owner)


def test_a_manager_who_is_no_longer_one_is_out_at_once(acme: World) -> None:
    client = Client()
    client.force_login(acme.admin)
    assert client.get(INDEX).status_code == 200
    with scope.tenant(acme.tenant.pk):
        Membership.objects.filter(user=acme.admin).update(role=Role.MEMBER)
    assert client.get(INDEX).status_code == 302
    assert (
        client.post(reverse("admin:tenants_serviceaccount_add"), {"name": "x"}).status_code == 302
    )
    with scope.tenant(acme.tenant.pk):
        assert not ServiceAccount.objects.filter(name="x").exists()


def test_djangos_own_permissions_give_nothing(acme: World, globex: World) -> None:
    from django.contrib.auth.models import Permission

    acme.admin.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(acme.admin)
    for name in ("auth_user", "tenants_tenant", "inference_release", "inference_route"):
        assert client.get(reverse(f"admin:{name}_changelist")).status_code == 403
        assert client.get(reverse(f"admin:{name}_add")).status_code == 403


def accounts_shown(client: Client) -> set[str]:
    page = client.get(reverse("admin:tenants_serviceaccount_changelist"))
    return set(re.findall(r"(\w+)-robot", page.content.decode()))


def test_a_manager_of_two_tenants_is_in_the_one_chosen(acme: World, globex: World) -> None:
    joined(globex, acme.admin, Role.ADMIN)
    client = Client()
    client.force_login(acme.admin)
    for world in (globex, acme):
        session = client.session
        session["tenant_id"] = world.tenant.pk
        session.save()
        assert accounts_shown(client) == {world.tenant.slug}
        assert world.tenant.name in client.get(INDEX).content.decode()


@pytest.mark.parametrize("chosen", ["ten_of_strangers", "", None, 5])
def test_a_choice_that_is_not_theirs_counts_for_nothing(
    chosen: object, acme: World, globex: World
) -> None:
    client = Client()
    client.force_login(acme.admin)
    session = client.session
    session["tenant_id"] = globex.tenant.pk if chosen == "ten_of_strangers" else chosen
    session.save()
    assert accounts_shown(client) == {"acme"}


def go_over(client: Client, place: str) -> int:
    return client.post(reverse("admin:choose_place"), {"tenant": place}).status_code


def test_a_manager_of_two_tenants_goes_over_from_one_to_the_other(
    acme: World, globex: World
) -> None:
    joined(globex, acme.admin, Role.AUDITOR)
    client = Client()
    client.force_login(acme.admin)
    for world in (globex, acme):
        assert f'value="{world.tenant.pk}"' in client.get(INDEX).content.decode()
        assert go_over(client, world.tenant.pk) == 302
        assert accounts_shown(client) == {world.tenant.slug}
        # The role goes with the tenant.
        add = client.get(reverse("admin:tenants_serviceaccount_add"))
        assert add.status_code == (403 if world is globex else 200)


def test_an_operator_goes_over_to_their_tenant_and_back(acme: World, globex: World) -> None:
    joined(acme, operator := person("both", superuser=True), Role.AUDITOR)
    client = Client()
    client.force_login(operator)
    assert accounts_shown(client) == {"acme", "globex"}
    assert go_over(client, acme.tenant.pk) == 302
    assert accounts_shown(client) == {"acme"}
    assert client.get(reverse("admin:tenants_tenant_changelist")).status_code == 403
    assert client.get(reverse("admin:replicas")).status_code == 403
    assert go_over(client, "") == 302
    assert accounts_shown(client) == {"acme", "globex"}


def test_a_chat_in_a_tenant_takes_no_operator_off_the_platform(acme: World, globex: World) -> None:
    client = Client()
    client.force_login(joined(acme, person("both", superuser=True), Role.OWNER))
    assert client.get("/chat/").status_code == 200
    assert client.session["tenant_id"] == acme.tenant.pk
    assert accounts_shown(client) == {"acme", "globex"}


@pytest.mark.parametrize("place", ["", "theirs", "nowhere"])
def test_nobody_goes_where_they_have_no_part(place: str, acme: World, globex: World) -> None:
    client = Client()
    client.force_login(acme.admin)
    assert go_over(client, globex.tenant.pk if place == "theirs" else place) == 403
    assert accounts_shown(client) == {"acme"}
    assert client.get(reverse("admin:choose_place")).status_code == 405
    assert 'action="/admin/place/"' not in client.get(INDEX).content.decode()


def test_a_platform_role_that_was_withdrawn_is_gone_at_the_next_request(db: None) -> None:
    user = platform_person(PlatformRole.OPERATOR)
    client = Client()
    client.force_login(user)
    assert client.get(reverse("admin:tenants_tenant_changelist")).status_code == 200
    PlatformGrant.objects.filter(user=user).delete()
    assert client.get(reverse("admin:tenants_tenant_changelist")).status_code == 302


def scope_seen(request: HttpRequest) -> HttpResponse:
    """Tells the scope while the view runs and while its template is rendered."""

    def now() -> str:
        try:
            return f"[{scope.current().tenant_id}]"
        except scope.ScopeMissing:
            return "[none]"

    template = engines["django"].from_string("{{ in_view }}{{ in_template }}")
    return TemplateResponse(request, template, {"in_view": now(), "in_template": now})


class Addresses:
    urlpatterns = [
        path("admin/seen/", scope_seen),
        path("chat/seen/", scope_seen),
        path("administration/", scope_seen),
        *urls.urlpatterns,
    ]


@pytest.fixture
def seen(settings: Settings) -> None:
    settings.ROOT_URLCONF = Addresses


def told(response: object) -> str:
    return str(getattr(response, "content").decode())  # noqa: B009


@pytest.mark.usefixtures("seen")
def test_the_scope_covers_view_and_template_under_admin_alone(acme: World) -> None:
    client = Client()
    assert told(client.get("/admin/seen/")) == "[none][none]"
    client.force_login(acme.admin)
    assert told(client.get("/admin/seen/")) == f"[{acme.tenant.pk}]" * 2
    for elsewhere in ("/chat/seen/", "/administration/"):
        assert told(client.get(elsewhere)) == "[none][none]"
    client.force_login(person("root", superuser=True))
    assert told(client.get("/admin/seen/")) == "[None][None]"
    with pytest.raises(scope.ScopeMissing):
        scope.current()


def test_no_scope_is_left_behind_by_an_error(acme: World) -> None:
    def breaks(request: HttpRequest) -> HttpResponse:
        assert scope.current().tenant_id == acme.tenant.pk
        assert actor_of(request) == acme.admin
        raise ZeroDivisionError

    request = RequestFactory().get("/admin/anything/")
    request.user = acme.admin
    request.session = SessionStore()
    with pytest.raises(ZeroDivisionError):
        AdminScopeMiddleware(breaks)(request)
    with pytest.raises(scope.ScopeMissing):
        scope.current()


def test_a_request_past_the_middleware_has_no_access(acme: World) -> None:
    request = RequestFactory().get("/admin/")
    request.user = acme.admin
    assert access_of(request) is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("seen")
async def test_requests_at_the_same_time_keep_their_scopes_apart() -> None:
    from asgiref.sync import sync_to_async

    from tests.tenants.worlds import world

    expected: list[str] = []
    clients: list[AsyncClient] = []

    def build() -> list[tuple[User, str]]:
        worlds = [world("acme"), world("globex")]
        people = [(one.admin, f"[{one.tenant.pk}]") for one in worlds]
        return [*people, (person("root", superuser=True), "[None]"), (worlds[0].member, "[none]")]

    for user, says in await sync_to_async(build)():
        client = AsyncClient()
        await client.aforce_login(user)
        clients.append(client)
        expected.append(says * 2)
    for _ in range(3):
        answers = await asyncio.gather(*(client.get("/admin/seen/") for client in clients))
        assert [told(answer) for answer in answers] == expected
        elsewhere = await asyncio.gather(*(client.get("/chat/seen/") for client in clients))
        assert {told(answer) for answer in elsewhere} == {"[none][none]"}
    with pytest.raises(scope.ScopeMissing):
        scope.current()


@override_settings(LANGUAGE_CODE="tr")
def test_the_admin_speaks_the_language_asked_for(acme: World) -> None:
    client = Client(headers={"accept-language": "tr"})
    client.force_login(acme.admin)
    assert 'lang="tr"' in client.get(INDEX).content.decode()
