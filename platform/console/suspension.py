"""The operators' pages that suspend a tenant and let it in again: each asks before it acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextInputWidget

from console.pages import PlatformAdmin
from console.scope import actor_of
from kernel.errors import PlatformError
from tenants.audit_actions import AuditAction
from tenants.models import Tenant
from tenants.permissions import Action
from tenants.services import suspension
from tenants.services.audit import target_of
from tenants.services.refusals import record_refusal


class SuspendForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=suspension.REASON_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("The tenant's people read it. Say whom they may ask."),
    )


class Suspends(PlatformAdmin):
    """Of a tenant's admin page: the two actions."""

    def has_suspend_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, Action.TENANT_SUSPEND)

    @action(  # type: ignore[untyped-decorator]
        description=_("Suspend"),
        url_path="suspend",
        permissions=["suspend"],
        variant=ActionVariant.DANGER,
    )
    def suspend_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tenant = get_object_or_404(Tenant, pk=unquote(object_id))
        form = SuspendForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            return self._carry_out(
                request,
                tenant,
                AuditAction.TENANT_SUSPEND,
                lambda: suspension.suspend(
                    tenant=tenant,
                    reason=form.cleaned_data["reason"],
                    actor=actor_of(request),
                    now=timezone.now(),
                ),
            )
        return self._ask(request, tenant, gettext("Suspend tenant"), form)

    @action(  # type: ignore[untyped-decorator]
        description=_("Resume"), url_path="resume", permissions=["suspend"]
    )
    def resume_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        tenant = get_object_or_404(Tenant, pk=unquote(object_id))
        if request.method == "POST":
            return self._carry_out(
                request,
                tenant,
                AuditAction.TENANT_RESUME,
                lambda: suspension.resume(
                    tenant=tenant, actor=actor_of(request), now=timezone.now()
                ),
            )
        return self._ask(request, tenant, gettext("Resume tenant"), None)

    def _ask(
        self, request: HttpRequest, tenant: Tenant, title: str, form: forms.Form | None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "tenant": tenant,
            "form": form,
        }
        return TemplateResponse(request, "console/tenant_suspension.html", context)

    def _carry_out(
        self, request: HttpRequest, tenant: Tenant, word: AuditAction, verb: Callable[[], None]
    ) -> HttpResponse:
        try:
            verb()
        except PlatformError as error:
            record_refusal(
                word,
                error,
                actor=actor_of(request),
                now=timezone.now(),
                tenant_id=tenant.pk,
                target=target_of(tenant),
            )
            self.message_user(request, gettext(error.message), messages.ERROR)
        else:
            done = gettext("Resumed.") if tenant.is_active else gettext("Suspended.")
            self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:tenants_tenant_change", args=[tenant.pk]))
