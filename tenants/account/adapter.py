"""What is ours about allauth's accounts. Nobody signs up: people are made by operators and
invitations.
"""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from web.client_address import client_address

# Whoever can't be told from others is counted with them.
NO_ADDRESS = "::"
REFUSED = _("The user name or the password is not right. Check both and try again.")


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc] # allauth has no types
    error_messages = DefaultAccountAdapter.error_messages | {
        # The same for an unknown name, a wrong password and an inactive account.
        "username_password_mismatch": REFUSED,
        "invalid_login": REFUSED,
        "account_inactive": REFUSED,
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """The one that audit records name: what no trusted proxy wrote is not believed."""
        return str(client_address(request) or NO_ADDRESS)

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
