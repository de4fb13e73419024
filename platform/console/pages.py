"""The rules that every page of the admin follows.

`PlatformAdmin` is for the platform's own rows, `TenantAdmin` for rows of a tenant. Which rows are
in sight is decided by the tenant scope (`console.scope`), under every query of the page: list,
detail, choices, filters, search, actions, autocomplete, cascades. What may be done to them is
decided by the table of `tenants.permissions`, which is asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.db import connection
from django.db.models import ForeignKey, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.decorators import display

from console import concurrent_edits
from console.scope import Access, access_of, actor_of
from kernel.errors import PlatformError
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.permissions import Action
from tenants.services.audit import Target
from tenants.services.refusals import record_refusal
from tenants.services.rows import Listed, delete_row, save_row


class ConsoleAdmin(ModelAdmin):  # type: ignore[misc] # unfold has no types
    """Denies everything; Django's permissions have no say.

    sees, manages: what one must be allowed to look, and to do what the flags say
    can_add, can_change, can_delete: whether there is such a thing here at all
    private_fields: what is shown to nobody here; a lookup would tell it letter by letter
    listed: how the audit log tells of what is done here
    """

    view_on_site = False
    list_per_page = 50
    sees: Action | None = None
    manages: Action | None = None
    can_add = can_change = can_delete = False
    private_fields: tuple[str, ...] = ()
    listed = Listed(None, None, None)
    change_form_before_template = "console/seen_values.html"

    def reaches(self, access: Access, obj: Any) -> bool:
        """Whether `obj`, where there is one, is among what this access has in sight."""
        return False

    def _may(self, request: HttpRequest, action: Action | None, obj: Any = None) -> bool:
        access = access_of(request)
        if access is None or action is None:
            return False
        return access.may(action) and self.reaches(access, obj)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        asked_for, _, _ = lookup.partition("__")
        allowed: bool = super().lookup_allowed(lookup, value, request)
        return allowed and asked_for not in self.private_fields

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._may(request, self.sees)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.sees, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and self._may(request, self.manages)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and self._may(request, self.manages, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and self._may(request, self.manages, obj)

    # -- Two at once

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        obj = super().get_object(request, object_id, from_field)
        if obj is not None and request.method == "POST" and connection.in_atomic_block:
            concurrent_edits.lock(obj)
            obj = super().get_object(request, object_id, from_field)
        if obj is not None:
            # Now: a form writes what was entered into the row.
            setattr(request, concurrent_edits.ATTRIBUTE, concurrent_edits.values_of(obj))
        return obj

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        values = getattr(request, concurrent_edits.ATTRIBUTE, None)
        if obj is None or values is None or request.method != "POST":
            return form
        return type(form.__name__, (concurrent_edits.ChecksForChanges, form), {"values": values})

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        values = getattr(request, concurrent_edits.ATTRIBUTE, None)
        if values is not None:
            form = context["adminform"].form
            context["seen_values"] = concurrent_edits.carried(values, form)
            context["seen_values_name"] = concurrent_edits.FIELD
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    # -- Whatever is written leaves a record.

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        save_row(obj, listed=self.listed, actor=actor_of(request), now=timezone.now())

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_row(obj, listed=self.listed, actor=actor_of(request), now=timezone.now())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            self.delete_model(request, obj)

    # -- What services refuse is told on the page before, and nothing of it is kept but a record.

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        view = partial(super().changeform_view, request, object_id, *args, **kwargs)
        action = self.listed.change if object_id else self.listed.create
        return self._unless_refused(request, view, action, object_id)

    def delete_view(self, request: HttpRequest, object_id: str, *args: Any) -> HttpResponse:
        view = partial(super().delete_view, request, object_id, *args)
        return self._unless_refused(request, view, self.listed.delete, object_id)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        view = partial(super().changelist_view, request, *args, **kwargs)
        return self._unless_refused(request, view, self.listed.delete, None)

    def _unless_refused(
        self,
        request: HttpRequest,
        view: Callable[[], HttpResponse],
        action: AuditAction | None,
        object_id: str | None,
    ) -> HttpResponse:
        try:
            return view()
        except PlatformError as error:
            record_refusal(
                action,
                error,
                actor=actor_of(request),
                now=timezone.now(),
                tenant_id=scope.current().tenant_id,
                target=Target(self.opts.model_name, object_id or ""),
            )
            self.message_user(request, gettext(error.message), messages.ERROR)
            return HttpResponseRedirect(request.path)


class PlatformAdmin(ConsoleAdmin):
    """The platform's rows: for people with a platform role, as far as it reaches."""

    can_add = can_change = can_delete = True

    def reaches(self, access: Access, obj: Any) -> bool:
        return access.sees_platform


class ScopedForm(forms.ModelForm):  # type: ignore[type-arg] # no generics at run time
    """Puts a new row into the tenant in scope, and checks what is unique within a tenant although
    the tenant isn't a field of the form."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tenant_id = scope.current().tenant_id
        if tenant_id is not None and not self.instance.tenant_id:
            self.instance.tenant_id = tenant_id

    def _get_validation_exclusions(self) -> set[str]:
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        return excluded - {"tenant"} if self.instance.tenant_id else excluded


class TenantAdmin(ConsoleAdmin):
    """Rows of tenants. On the platform all are seen, with their tenant, which is chosen for a new
    row; in a tenant its own, and no tenant.

    chooses_tenant: False where the tenant follows from another field
    """

    form = ScopedForm
    chooses_tenant = True

    def reaches(self, access: Access, obj: Any) -> bool:
        return access.tenant is None or obj is None or self.tenant_id_of(obj) == access.tenant.pk

    def tenant_id_of(self, obj: Any) -> Any:
        return obj.tenant_id

    @display(description=_("tenant"), ordering="tenant__name")  # type: ignore[untyped-decorator]
    def tenant_name(self, obj: Any) -> str:
        return str(obj.tenant)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = list(super().get_list_display(request))
        return [*columns, "tenant_name"] if self._sees_all(request) else columns

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        filters = list(super().get_list_filter(request))
        return [*filters, "tenant"] if self._sees_all(request) else filters

    def get_list_select_related(self, request: HttpRequest) -> list[str]:
        related = self.list_select_related
        return [*(related if isinstance(related, (list, tuple)) else ()), "tenant"]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        fields = list(super().get_fields(request, obj))
        if not self._sees_all(request):
            return fields
        if obj is not None:
            return ["tenant_name", *fields]
        return ["tenant", *fields] if self.chooses_tenant else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        readonly = list(super().get_readonly_fields(request, obj))
        return [*readonly, "tenant_name"] if obj is not None else readonly

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "tenant":
            kwargs["label"] = _("Tenant")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def _sees_all(self, request: HttpRequest) -> bool:
        access = access_of(request)
        return access is not None and access.sees_platform
