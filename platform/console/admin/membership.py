from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.naming import NamesPerson
from console.pages import ScopedForm, TenantAdmin
from console.scope import access_of, actor_of
from tenants.audit_actions import AuditAction
from tenants.models import Membership, Role
from tenants.permissions import Action, may_assign
from tenants.services import people
from tenants.services.rows import Listed


class NewMemberForm(NamesPerson, ScopedForm):
    pass


@admin.register(Membership)
class MembershipPages(TenantAdmin):
    sees, manages = Action.MEMBER_VIEW, Action.MEMBER_MANAGE
    listed = Listed(AuditAction.MEMBER_ADD, AuditAction.MEMBER_CHANGE, AuditAction.MEMBER_REMOVE)
    can_add = can_change = can_delete = True
    list_display = ("username", "role_label", "created_at")
    list_filter = ("role",)
    list_select_related = ("user",)
    search_fields = ("user__username", "user__email")
    readonly_fields = ("username",)
    ordering = ("user__username",)

    @display(description=_("person"), ordering="user__username")  # type: ignore[untyped-decorator]
    def username(self, obj: Any) -> str:
        return str(obj.user.get_username())

    @display(  # type: ignore[untyped-decorator]
        description=_("role"),
        ordering="role",
        label={Role.OWNER: "primary", Role.ADMIN: "info"},
    )
    def role_label(self, obj: Any) -> tuple[str, str]:
        return obj.role, obj.get_role_display()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self._may_assign(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self._may_assign(request, obj)

    def _may_assign(self, request: HttpRequest, obj: Any) -> bool:
        access = access_of(request)
        if obj is None or access is None:
            return access is not None
        return may_assign(access.standing, obj.role, access.tenant_id)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        fields = ["username", "role"]
        return ["tenant", *fields] if obj is None and self._sees_all(request) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        return [] if obj is None else super().get_readonly_fields(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewMemberForm
        return super().get_form(request, obj, change=change, **kwargs)

    def formfield_for_choice_field(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        access = access_of(request)
        if db_field.name == "role" and access is not None:
            kwargs["choices"] = [
                (role, label)
                for role, label in Role.choices
                if may_assign(access.standing, role, access.tenant_id)
            ]
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        actor, now = actor_of(request), timezone.now()
        if change:
            people.change_role(membership=obj, role=obj.role, actor=actor, now=now)
        else:
            obj.pk = people.add_member(
                tenant=obj.tenant, user=obj.user, role=obj.role, actor=actor, now=now
            ).pk

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        people.remove_member(membership=obj, actor=actor_of(request), now=timezone.now())
