from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.naming import NamesPerson
from console.pages import PlatformAdmin
from console.scope import actor_of
from tenants.audit_actions import AuditAction
from tenants.models import PlatformGrant
from tenants.permissions import Action
from tenants.services.platform_roles import grant_role, withdraw_role
from tenants.services.rows import Listed


class NewGrantForm(NamesPerson):
    pass


@admin.register(PlatformGrant)
class PlatformGrantPages(PlatformAdmin):
    """Given and withdrawn, not changed."""

    sees, manages = Action.PLATFORM_ROLE_VIEW, Action.PLATFORM_ROLE_MANAGE
    listed = Listed(AuditAction.PLATFORM_ROLE_GRANT, None, AuditAction.PLATFORM_ROLE_WITHDRAW)
    can_change = False
    list_display = ("username", "role_name", "created_at")
    list_filter = ("role",)
    list_select_related = ("user",)
    search_fields = ("user__username", "user__email")
    readonly_fields = ("username",)
    ordering = ("user__username", "role")

    @display(description=_("person"), ordering="user__username")  # type: ignore[untyped-decorator]
    def username(self, obj: Any) -> str:
        return str(obj.user.get_username())

    @display(description=_("role"), ordering="role")  # type: ignore[untyped-decorator]
    def role_name(self, obj: Any) -> str:
        return str(obj.get_role_display())

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        return ["username", "role"] if obj is None else ["username", "role", "created_at"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        return [] if obj is None else super().get_readonly_fields(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewGrantForm
        return super().get_form(request, obj, change=change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.pk = grant_role(
            user=obj.user, role=obj.role, actor=actor_of(request), now=timezone.now()
        ).pk

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        withdraw_role(grant=obj, actor=actor_of(request), now=timezone.now())
