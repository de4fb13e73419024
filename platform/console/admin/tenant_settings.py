from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from console.pages import ConsoleAdmin
from console.scope import Access, access_of, actor_of
from kernel.errors import BadRequest
from tenants.audit_actions import AuditAction
from tenants.models import Priority, TenantSettings
from tenants.permissions import Action
from tenants.services import tenant_settings
from tenants.services.rows import Listed
from tenants.services.tenant_settings import Wanted


class SettingsForm(forms.ModelForm):  # type: ignore[type-arg] # no generics at run time
    def clean(self) -> Any:
        cleaned = super().clean()
        if not self.errors:
            try:
                tenant_settings.check_within(self.instance, self.wanted())
            except BadRequest as refusal:
                self.add_error(refusal.param, gettext(refusal.message))
        return cleaned

    def wanted(self) -> Wanted:
        return Wanted(**{name: self.cleaned_data[name] for name in tenant_settings.FIELDS})


@admin.register(TenantSettings)
class TenantSettingsPages(ConsoleAdmin):
    """What a tenant's managers set, beside what the operator granted them."""

    sees, manages = Action.SETTINGS_VIEW, Action.SETTINGS_MANAGE
    can_change = True
    form = SettingsForm
    listed = Listed(None, AuditAction.TENANT_CHANGE, None, tenant_settings.FIELDS)
    list_display = ("name", "default_priority", "own_high_water_tokens")
    search_fields = ("name",)
    fieldsets = (
        (None, {"fields": tenant_settings.FIELDS}),
        (_("Granted by the operator"), {"fields": ("highest_granted", "tokens_granted")}),
    )
    readonly_fields = ("highest_granted", "tokens_granted")

    def reaches(self, access: Access, obj: Any) -> bool:
        return access.tenant is None or obj is None or obj.pk == access.tenant.pk

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        access = access_of(request)
        rows: QuerySet[Any] = super().get_queryset(request)
        if access is None:
            return rows.none()
        return rows if access.tenant is None else rows.filter(pk=access.tenant.pk)

    @display(description=_("highest priority"))  # type: ignore[untyped-decorator]
    def highest_granted(self, obj: Any) -> Any:
        return Priority(obj.highest_priority).label

    @display(description=_("most read-ahead (tokens)"))  # type: ignore[untyped-decorator]
    def tokens_granted(self, obj: Any) -> int:
        return tenant_settings.granted_tokens(obj)

    def formfield_for_choice_field(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        access = access_of(request)
        if db_field.name == "default_priority" and access is not None and access.tenant is not None:
            granted = tenant_settings.granted_priorities(access.tenant)
            kwargs["choices"] = [each for each in Priority.choices if each[0] in granted]
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        tenant_settings.configure(
            tenant=obj, wanted=form.wanted(), actor=actor_of(request), now=timezone.now()
        )
