"""What is ours about allauth's accounts. Nobody signs up: people are made by operators and
invitations.
"""

from __future__ import annotations

import logging
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.contrib import messages
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

from tenants.sign_in_records import throttled
from web.client_address import client_address

log = logging.getLogger(__name__)

# Whoever can't be told from others is counted with them.
NO_ADDRESS = "::"
REFUSED = _("The user name or the password is not right. Check both and try again.")


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc] # allauth has no types
    error_messages = DefaultAccountAdapter.error_messages | {
        # The same for an unknown name, a wrong password and an inactive account.
        "username_password_mismatch": REFUSED,
        "invalid_login": REFUSED,
        "account_inactive": REFUSED,
        "too_many_login_attempts": _("Too many failed attempts. Try again in five minutes."),
        "rate_limited": _("Too many attempts. Try again in five minutes."),
        "incorrect_password": _("The password is not right."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        messages.error(request, REFUSED)
        return redirect("login")

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """Not of who has neither password nor second factor, as those have who come by another
        identity provider: they could never set one up.
        """
        if not self.get_reauthentication_methods(self.request.user):
            return False
        return bool(super().is_reauthentication_required(app=app, **kwargs))

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """A mail server that is away changes no answer: it would tell which accounts there are."""
        try:
            super().send_mail(template_prefix, email, context)
        except (OSError, SMTPException):
            log.exception("A mail could not be sent (%s).", template_prefix)

    def get_client_ip(self, request: HttpRequest) -> str:
        """The one that audit records name: what no trusted proxy wrote is not believed."""
        return str(client_address(request) or NO_ADDRESS)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            throttled(request, str(credentials.get("username", "")))
            raise

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Without the site's name, which whoever asks writes: each would give more attempts."""
        return str(credentials.get("username", "")).casefold()

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """allauth's own tells somebody who was switched off, and knows the password, so; here they
        are refused like anybody, and counted like anybody.
        """
        self.pre_authenticate(request, **credentials)
        user: User | None = authenticate(request, **credentials)
        if user is None:
            self.authentication_failed(request, **credentials)
        else:
            self._rollback_login_failed_rl_usage()
        return user
