"""The page on which a tenant's managers say how its people sign in."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from console.scope import access_of
from tenants.permissions import Action
from tenants.services.second_factor import require


def page(request: HttpRequest, *, context: dict[str, Any]) -> HttpResponse:
    """Of the tenant in sight; operators see one on its own page."""
    access = access_of(request)
    if access is None or access.tenant is None or not access.may(Action.SIGN_IN_POLICY_MANAGE):
        raise PermissionDenied
    tenant = access.tenant
    if request.method == "POST":
        wanted = "requires_mfa" in request.POST
        require(tenant=tenant, required=wanted, actor=access.user, now=timezone.now())
        messages.success(request, gettext("Saved."))
        return HttpResponseRedirect(reverse("admin:sign_in_policy"))
    shown = context | {"title": gettext("Sign-in policy"), "tenant": tenant}
    return TemplateResponse(request, "console/sign_in_policy.html", shown)
