"""The content policy of pages (django-csp), with what some addresses need beyond the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csp.middleware import CSPMiddleware, PolicyParts
from csp.utils import build_policy
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase

Sources = Mapping[str, list[str]]


class ContentPolicyMiddleware(CSPMiddleware):
    """CONTENT_SECURITY_POLICY, and CONTENT_POLICY_MORE under its addresses. What a view adds with
    django-csp's decorators is kept.
    """

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts: PolicyParts = super().get_policy_parts(request, response, report_only)
        more = {name: _listed(each) for name, each in (parts.update or {}).items()}
        for address, sources in settings.CONTENT_POLICY_MORE.items():
            if request.path.startswith(address):
                _add(more, sources)
        _add(more, {"connect-src": _own_sockets(request)})
        parts.update = more
        return parts


def _listed(sources: Any) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources)


def _add(more: dict[str, list[str]], sources: Sources) -> None:
    for directive, values in sources.items():
        more[directive] = [*more.get(directive, []), *values]


def _own_sockets(request: HttpRequest) -> list[str]:
    try:
        host = request.get_host()
    except DisallowedHost:  # the page says no more than that
        return []
    return [f"{'wss' if request.is_secure() else 'ws'}://{host}"]


def bare_policy() -> str:
    """Of a page that is made outside of the middleware."""
    return build_policy()


def policy_of(response: Any) -> dict[str, list[str]]:
    """An answer's policy by directive, for who checks it."""
    words = (part.split() for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: values for name, *values in filter(None, words)}
