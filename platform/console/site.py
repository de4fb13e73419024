"""The admin site. What a person may do is decided by the scope their request was given and by the
table of permissions, never by Django's own permissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from console.pages import ConsoleAdmin
from console.replicas import views
from console.scope import Access, access_of, actor_of, choose_place
from tenants.models import Tenant
from tenants.permissions import Action
from tenants.services.accounts import password_was_set

# How long a browser may keep the theme's colours.
COLORS_S = 3600


def _operations() -> dict[str, Any]:
    address = reverse("admin:replicas")
    page = {
        "name": gettext("Replicas"),
        "object_name": "Replicas",
        "admin_url": address,
        "add_url": None,
        "perms": {"view": True},
        "view_only": True,
    }
    return {
        "name": gettext("Operations"),
        "app_label": "operations",
        "app_url": address,
        "has_module_perms": True,
        "models": [page],
    }


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

    def get_urls(self) -> list[URLPattern | URLResolver]:
        # /r/ tells which ids of which models exist; nothing here has a page of its own to lead to.
        urls = [url for url in super().get_urls() if getattr(url, "name", "") != "view_on_site"]
        return [
            path("colors.css", self._colors, name="colors"),
            path("place/", self.admin_view(self._choose_place), name="choose_place"),
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

    def _choose_place(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        choose_place(request, request.POST.get("tenant", ""))
        return HttpResponseRedirect(reverse("admin:index"))

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().password_change(request, extra_context)
            if request.method == "POST" and response.status_code == 302:
                user = actor_of(request)
                password_was_set(user=user, actor=user, now=timezone.now())
        return response

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """For operators the replicas first, as if they were a model's page."""
        found: list[Any] = super().get_app_list(request, app_label)
        access = access_of(request)
        if app_label is None and access is not None and access.may(Action.REPLICA_VIEW):
            found.insert(0, _operations())
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
