"""Going over to another of one's tenants."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from streaming.pages.member import TENANT_IN_SESSION, Member, for_members


@require_POST
@for_members
def choose_tenant(request: HttpRequest, member: Member) -> HttpResponse:
    tenant_id = request.POST.get("tenant", "")
    if tenant_id not in {membership.tenant_id for membership in member.memberships}:
        raise PermissionDenied(_("You are not a member of that organisation."))
    request.session[TENANT_IN_SESSION] = tenant_id
    return redirect("chat")
