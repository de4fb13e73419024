"""allauth's pages where ours do something more, and the list of one's sessions."""

from __future__ import annotations

from typing import Any, cast

from allauth.account.views import LoginView
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from tenants.account.devices import device_of
from tenants.services.sessions import end_session, end_sessions, sessions_of

TRY_AGAIN_S = 300


class SignIn(LoginView):  # type: ignore[misc] # allauth has no types
    def form_invalid(self, form: Any) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        if form.has_error("__all__", "too_many_login_attempts"):
            response.status_code = 429
            response.headers["Retry-After"] = str(TRY_AGAIN_S)
        return response


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sessions(request: HttpRequest) -> HttpResponse:
    user, now = cast(User, request.user), timezone.now()
    key = request.session.session_key
    if request.method == "POST":
        named = request.POST.get("session", "")
        if "all_others" in request.POST:
            end_sessions(user=user, actor=user, now=now, reason="asked_for", but_key=key)
        elif named.isascii() and named.isdigit() and len(named) < 19:
            end_session(user=user, session_id=int(named), actor=user, now=now)
        return redirect("usersessions_list")
    found = sessions_of(user, current_key=key, now=now)
    listed = [{"session": each, "device": device_of(each.user_agent)} for each in found]
    return render(request, "usersessions/usersession_list.html", {"sessions": listed})
