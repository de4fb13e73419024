from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import ForeignKey, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from console.pages import ScopedForm, TenantAdmin
from console.scope import actor_of
from tenants.models import ApiKey
from tenants.permissions import Action
from tenants.services.keys import KeyRights, issue_key, revoke_key

STATUSES = {"active": _("Active"), "expired": _("Expired"), "revoked": _("Revoked")}


class NewKeyForm(ScopedForm):
    """The tenant follows from the service account."""

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise forms.ValidationError(_("The expiry must be in the future."))
        return expires_at


class StatusFilter(admin.SimpleListFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(STATUSES.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        expired = Q(expires_at__lte=timezone.now())
        if self.value() == "active":
            return queryset.filter(~expired | Q(expires_at=None), revoked_at=None)
        if self.value() == "expired":
            return queryset.filter(expired, revoked_at=None)
        if self.value() == "revoked":
            return queryset.exclude(revoked_at=None)
        return queryset


@admin.register(ApiKey)
class ApiKeyPages(TenantAdmin):
    """Issued and revoked, never edited and never deleted: what a key did stays answerable."""

    sees, manages = Action.KEY_VIEW, Action.KEY_MANAGE
    can_add = True
    chooses_tenant = False
    list_display = (
        "name",
        "public_part",
        "service_account",
        "status_label",
        "created_at",
        "expires_at",
    )
    list_filter = (StatusFilter,)
    list_select_related = ("service_account",)
    search_fields = ("id", "name", "service_account__name")
    ordering = ("-created_at",)
    actions = ("revoke",)
    actions_detail = ("revoke_one",)

    @display(description=_("key"))  # type: ignore[untyped-decorator]
    def public_part(self, obj: Any) -> str:
        return f"{obj.prefix}_…"

    @display(  # type: ignore[untyped-decorator]
        description=_("status"),
        label={"active": "success", "expired": "warning", "revoked": "danger"},
    )
    def status_label(self, obj: Any) -> tuple[str, Any]:
        status = obj.status(now=timezone.now())
        return status, STATUSES[status]

    @display(description=_("status"))  # type: ignore[untyped-decorator]
    def status(self, obj: Any) -> Any:
        return STATUSES[obj.status(now=timezone.now())]

    # -- Issuing

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        if obj is None:
            return ["service_account", "name", "expires_at", "highest_priority"]
        tenant = ["tenant_name"] if self._sees_all(request) else []
        return [
            *tenant,
            "name",
            "public_part",
            "service_account",
            "status",
            "highest_priority",
            "created_at",
            "expires_at",
            "revoked_at",
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        return [] if obj is None else self.get_fields(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewKeyForm
        return super().get_form(request, obj, change=change, **kwargs)

    def formfield_for_foreignkey(
        self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if db_field.name == "service_account":
            field.queryset = field.queryset.filter(is_active=True).select_related("tenant")
            if self._sees_all(request):
                field.label_from_instance = lambda account: f"{account.tenant}: {account}"
        return field

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        # The page that shows the key is the only one that may follow.
        only_save = {"show_save_and_add_another": False, "show_save_and_continue": False}
        response: HttpResponse = super().add_view(
            request, form_url, {**(extra_context or {}), **only_save}
        )
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        key, text = issue_key(
            service_account=obj.service_account,
            name=obj.name,
            expires_at=obj.expires_at,
            rights=KeyRights(highest_priority=obj.highest_priority),
            actor=actor_of(request),
            now=timezone.now(),
        )
        obj.pk, obj.tenant_id = key.pk, key.tenant_id
        # For response_add, which ends this request: the text is shown there and kept nowhere.
        obj.text_shown_once = text

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The key itself, in the very response to the form: no session, no message, no redirect."""
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("API key issued"),
            "opts": self.opts,
            "key": obj,
            "key_text": obj.text_shown_once,
        }
        response = TemplateResponse(request, "console/key_issued.html", context)
        add_never_cache_headers(response)
        return response

    # -- Revoking

    def has_revoke_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.manages)

    @admin.action(description=_("Revoke selected keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask first, then revoke."""
        if request.POST.get("confirmed") != "yes":
            return self._confirm_revoking(request, queryset)
        keys = list(queryset.filter(revoked_at=None))
        for key in keys:
            revoke_key(key=key, actor=actor_of(request), now=timezone.now())
            self.log_change(request, key, gettext("Revoked."))
        text = ngettext("%(count)d key revoked.", "%(count)d keys revoked.", len(keys))
        self.message_user(request, text % {"count": len(keys)}, messages.SUCCESS)
        return None

    @action(  # type: ignore[untyped-decorator]
        description=_("Revoke"),
        url_path="revoke",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
    )
    def revoke_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._confirm_revoking(request, self.get_queryset(request).filter(pk=object_id))

    def _confirm_revoking(self, request: HttpRequest, keys: QuerySet[Any]) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Revoke API keys"),
            "opts": self.opts,
            "keys": keys.filter(revoked_at=None),
            "checkbox": ACTION_CHECKBOX_NAME,
            "list_url": reverse("admin:tenants_apikey_changelist"),
        }
        return TemplateResponse(request, "console/key_revoke.html", context)
