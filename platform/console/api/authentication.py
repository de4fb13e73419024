"""How a request says who asks: an API key by the checks of `/v1/`, or the browser's session."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication, exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from console.api.caller import Caller
from kernel.errors import PermissionDenied, Unauthenticated
from kernel.origin import digest_of
from streaming.openai.authentication import BARE, authorization_of
from tenants.authorization import check_scope
from tenants.services.keys import let_in
from tenants.services.standing import standing_of
from web.client_address import client_address

Outcome = tuple[Any, Caller]
KEY_HEADERS = ("HTTP_AUTHORIZATION", *BARE)


class KeyAuthentication(BaseAuthentication):
    """An API key with the scope `admin`: read from the database with every request, so that one
    that is revoked is refused at once.
    """

    @sensitive_variables()
    def authenticate(self, request: Request) -> Outcome | None:
        """None without a key. A bad one is refused, whatever session there may be.

        Raises Unauthenticated, and PermissionDenied as `let_in`, or `missing_scope`.
        """
        asked = request._request  # noqa: SLF001 - documented by DRF
        if not any(name in asked.META for name in KEY_HEADERS):
            return None
        where, now = client_address(asked), timezone.now()
        principal = let_in(authorization_of(asked), where=where, now=now)
        check_scope(principal, "admin")
        return AnonymousUser(), Caller(principal, standing_of(principal))

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SessionAuthentication(authentication.SessionAuthentication):
    """A person who is signed in; what changes something needs the CSRF token as well."""

    def authenticate(self, request: Request) -> Outcome | None:
        """Raises PermissionDenied `csrf_failed`."""
        asked = request._request  # noqa: SLF001 - documented by DRF
        user = cast(User, getattr(asked, "user", None))
        if user is None or not user.is_active:
            return None
        try:
            self.enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise PermissionDenied(str(error.detail), code="csrf_failed") from error
        return user, Caller(user, standing_of(user), digest_of(asked.session.session_key))


def caller_of(request: Request) -> Caller:
    """Raises Unauthenticated."""
    try:
        caller = request.auth
    except exceptions.APIException as error:
        raise Unauthenticated("Sign in, or send an API key.") from error
    if caller is None:
        raise Unauthenticated("Sign in, or send an API key.")
    return cast(Caller, caller)


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # by metaclass
    target_class = KeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "nhr_<environment>_<id>_<secret>",
            "description": "An API key with the scope `admin`.",
        }


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # by metaclass
    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session of a browser; with `X-CSRFToken` for what changes things.",
        }
