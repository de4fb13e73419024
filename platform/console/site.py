"""The admin site. What a person may do is decided by the scope their request was given and by the
table of permissions, never by Django's own permissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from console import sign_in_policy
from console.pages import ConsoleAdmin
from console.replicas import views
from console.scope import Access, access_of, choose_place
from tenants.models import Tenant
from tenants.permissions import Action

# How long a browser may keep the theme's colours.
COLORS_S = 3600


def _listed(heading: str, label: str, name: str, address: str) -> dict[str, Any]:
    """A page of ours, listed as a model's is, under a heading of its own."""
    page = {
        "name": name,
        "object_name": name,
        "admin_url": address,
        "add_url": None,
        "perms": {"view": True},
        "view_only": True,
    }
    return {
        "name": heading,
        "app_label": label,
        "app_url": address,
        "has_module_perms": True,
        "models": [page],
    }


def _operations() -> dict[str, Any]:
    address = reverse("admin:replicas")
    return _listed(gettext("Operations"), "operations", gettext("Replicas"), address)


def _security() -> dict[str, Any]:
    address = reverse("admin:sign_in_policy")
    return _listed(gettext("Security"), "security", gettext("Sign-in policy"), address)


def _name(place: Tenant | None) -> str:
    return gettext("All tenants") if place is None else place.name


def _entry(place: Tenant | None, access: Access) -> dict[str, Any]:
    return {
        "title": _name(place),
        "value": "" if place is None else place.pk,
        "is_current": place == access.tenant,
    }


class ConsoleSite(UnfoldAdminSite):  # type: ignore[misc] # unfold has no types
    """Takes only admins that follow our rules: a library's own registration is passed over, since
    it would ask Django's permissions and show every tenant's rows."""

    index_title = _("Administration")

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        admin_class: type[ModelAdmin[Any]] | None = None,
        **options: Any,
    ) -> None:
        if admin_class is not None and issubclass(admin_class, ConsoleAdmin):
            super().register(model_or_iterable, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        return access_of(request) is not None

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        """There is one page to sign in on. Who is signed in and may not come in is told so: sent
        there, they would be sent back.
        """
        wanted = request.GET.get("next", reverse("admin:index"))
        if self.has_permission(request):
            return HttpResponseRedirect(reverse("admin:index"))
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect_to_login(wanted)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        # /r/ tells which ids of which models exist; nothing here has a page of its own to lead to.
        urls = [url for url in super().get_urls() if getattr(url, "name", "") != "view_on_site"]
        return [
            path("colors.css", self._colors, name="colors"),
            path("place/", self.admin_view(self._choose_place), name="choose_place"),
            path("sign-in-policy/", self.admin_view(self._sign_in_policy), name="sign_in_policy"),
            path("replicas/", self.admin_view(self._replicas), name="replicas"),
            path("replicas/state/", views.state, name="replicas_state"),
            path("replicas/drain/", views.drain, name="replicas_drain"),
            path("replicas/restart/", views.restart, name="replicas_restart"),
            *urls,
        ]

    def _colors(self, request: HttpRequest) -> HttpResponse:
        """The theme's colours, which unfold would write into each page as an inline style."""
        response = HttpResponse(content_type="text/css")
        names = self._get_colors("COLORS", request).items()
        lines = (
            f"--color-{name}-{weight}: {value};"
            for name, weights in names
            for weight, value in weights.items()
        )
        response.write(":root {" + "".join(lines) + "}\n")
        patch_cache_control(response, max_age=COLORS_S, private=True)
        return response

    def _replicas(self, request: HttpRequest) -> HttpResponse:
        return views.page(request, context=self.each_context(request))

    def _sign_in_policy(self, request: HttpRequest) -> HttpResponse:
        return sign_in_policy.page(request, context=self.each_context(request))

    def _choose_place(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        choose_place(request, request.POST.get("tenant", ""))
        return HttpResponseRedirect(reverse("admin:index"))

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return HttpResponseRedirect(reverse("account_change_password"))

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """For operators the replicas first, as if they were a model's page."""
        found: list[Any] = super().get_app_list(request, app_label)
        access = access_of(request)
        if app_label is None and access is not None and access.may(Action.REPLICA_VIEW):
            found.insert(0, _operations())
        tenant_in_sight = access.tenant if access is not None and app_label is None else None
        if tenant_in_sight and access and access.may(Action.SIGN_IN_POLICY_MANAGE):
            found.append(_security())
        return found

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        access = access_of(request)
        context: dict[str, Any] = super().each_context(request) | {"colors": None}
        if access is not None:
            context["site_subheader"] = _name(access.tenant)
            if len(access.places) > 1:
                # Where the menu has its links, in a template of ours: a switch is posted.
                context["site_dropdown"] = [_entry(place, access) for place in access.places]
        return context
