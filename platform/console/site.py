"""The admin site. What a person may do is decided by the scope their request was given, never by
Django's own permissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from console.pages import ConsoleAdmin
from console.scope import access_of


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
        return [url for url in super().get_urls() if getattr(url, "name", "") != "view_on_site"]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        access = access_of(request)
        context: dict[str, Any] = super().each_context(request)
        if access is not None:
            context["site_subheader"] = (
                access.tenant.name if access.tenant else gettext("All tenants")
            )
        return context
