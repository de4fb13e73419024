from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.db.models import ForeignKey, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from console.key_forms import SCOPES, NewKeyForm, RotateForm
from console.pages import TenantAdmin
from console.scope import actor_of
from kernel.errors import BadRequest
from tenants import key_format
from tenants.models import ApiKey
from tenants.permissions import Action
from tenants.services.keys import issue_key, revoke_key, rotate_key

STATUSES = {"active": _("Active"), "expired": _("Expired"), "revoked": _("Revoked")}


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
    """Issued, rotated and revoked, never edited and never deleted: what a key did stays
    answerable.
    """

    sees, manages = Action.KEY_VIEW, Action.KEY_MANAGE
    can_add = True
    chooses_tenant = False
    list_display = (
        "name",
        "public_part",
        "service_account",
        "status_label",
        "last_used_at",
        "created_at",
        "expires_at",
    )
    list_filter = (StatusFilter,)
    list_select_related = ("service_account",)
    search_fields = ("id", "name", "service_account__name")
    search_help_text = _("By name, service account, or the beginning of a key that was found.")
    ordering = ("-created_at",)
    actions = ("revoke",)
    actions_detail = ("rotate_one", "revoke_one")
    private_fields = ("digest",)

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

    @display(description=_("may be used for"))  # type: ignore[untyped-decorator]
    def scope_labels(self, obj: Any) -> str:
        labels = dict(SCOPES)
        return ", ".join(str(labels.get(scope, scope)) for scope in obj.scopes)

    @display(description=_("models"))  # type: ignore[untyped-decorator]
    def models_label(self, obj: Any) -> str:
        return ", ".join(obj.model_names) or gettext("all")

    @display(description=_("networks"))  # type: ignore[untyped-decorator]
    def networks_label(self, obj: Any) -> str:
        return ", ".join(obj.networks) or gettext("anywhere")

    @display(description=_("replaces"))  # type: ignore[untyped-decorator]
    def replaced(self, obj: Any) -> str:
        if not obj.replaces:
            return "–"
        return f"{key_format.prefix(settings.KEY_ENVIRONMENT, obj.replaces)}_…"

    @display(description=_("created by"))  # type: ignore[untyped-decorator]
    def creator(self, obj: Any) -> str:
        kind, _colon, number = obj.created_by.partition(":")
        if kind != "user":
            return obj.created_by or "–"
        user = User.objects.filter(pk=number).first()
        return obj.created_by if user is None else user.get_username()

    # -- Finding

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Of a key that was pasted whole nothing stays in the page or the address."""
        asked = request.GET.get("q", "")
        if "_" in asked and (found := key_format.id_beginning(asked)) is not None:
            query = request.GET.copy()
            query["q"] = found
            return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    # -- Issuing

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        if obj is None:
            return [
                "service_account",
                "name",
                "expires_at",
                "scopes",
                "model_names",
                "highest_priority",
                "networks",
            ]
        tenant = ["tenant_name"] if self._sees_all(request) else []
        return [
            *tenant,
            "name",
            "public_part",
            "service_account",
            "status",
            "scope_labels",
            "models_label",
            "highest_priority",
            "networks_label",
            "created_at",
            "creator",
            "replaced",
            "last_used_at",
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
            rights=form.rights(),
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
        return self._shown_once(request, obj, obj.text_shown_once)

    def _shown_once(self, request: HttpRequest, key: Any, text: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("API key issued"),
            "opts": self.opts,
            "key": key,
            "key_text": text,
        }
        response = TemplateResponse(request, "console/key_issued.html", context)
        add_never_cache_headers(response)
        return response

    # -- Rotating

    @action(  # type: ignore[untyped-decorator]
        description=_("Rotate"), url_path="rotate", permissions=["revoke"]
    )
    def rotate_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask first, then issue the successor and show it, this once."""
        key = get_object_or_404(self.get_queryset(request), pk=object_id)
        form = RotateForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            overlap = timedelta(hours=form.cleaned_data["overlap_h"])
            try:
                new, text = rotate_key(
                    key=key, actor=actor_of(request), now=timezone.now(), overlap=overlap
                )
            except BadRequest as refusal:
                form.add_error(None, gettext(refusal.message))
            else:
                self.log_change(request, key, gettext("Rotated."))
                return self._shown_once(request, new, text)
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Rotate API key"),
            "opts": self.opts,
            "key": key,
            "form": form,
        }
        return TemplateResponse(request, "console/key_rotate.html", context)

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
