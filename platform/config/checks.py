"""What `manage.py check --deploy` asks beyond Django's own: the settings that are ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from csp.constants import UNSAFE_EVAL, UNSAFE_INLINE
from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

SCRIPTS = ("default-src", "script-src", "script-src-elem", "script-src-attr")


@register(Tags.security, deploy=True)
def check_web_security(
    app_configs: Sequence[AppConfig] | None, **options: Any
) -> list[CheckMessage]:
    return [*_policy(), *_cookies(), *_hosts()]


def _policy() -> Iterator[CheckMessage]:
    if "web.content_policy.ContentPolicyMiddleware" not in settings.MIDDLEWARE:
        yield Error("Pages have no content policy: its middleware is missing.", id="nehir.E001")
    pages = settings.CONTENT_SECURITY_POLICY.get("DIRECTIVES", {})
    added = settings.CONTENT_POLICY_MORE
    for address, policy in [("every page", pages), *added.items()]:
        allowed = {word for directive in SCRIPTS for word in policy.get(directive) or ()}
        if UNSAFE_INLINE in allowed or "*" in allowed:
            yield Error(f"The content policy of {address} lets any script run.", id="nehir.E002")
    if UNSAFE_EVAL in (pages.get("script-src") or ()):
        yield Error("The content policy lets every page evaluate text.", id="nehir.E003")


def _cookies() -> Iterator[CheckMessage]:
    names = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    if not all(name.startswith("__Host-") for name in names):
        yield Warning("Cookies can be set by neighbouring hosts: no __Host-.", id="nehir.W004")
    if "None" in (settings.SESSION_COOKIE_SAMESITE, settings.CSRF_COOKIE_SAMESITE):
        yield Error("Cookies are sent along from other sites' pages.", id="nehir.E005")


def _hosts() -> Iterator[CheckMessage]:
    if any("*" in host for host in settings.ALLOWED_HOSTS):
        yield Error("NEHIR_ALLOWED_HOSTS lets any host name in.", id="nehir.E006")
    if not all(origin.startswith("https://") for origin in settings.CSRF_TRUSTED_ORIGINS):
        yield Error("NEHIR_ORIGINS must be https:// origins.", id="nehir.E007")
    if any("*" in origin for origin in settings.CSRF_TRUSTED_ORIGINS):
        yield Error("NEHIR_ORIGINS must name origins in full.", id="nehir.E008")
    if settings.SECURE_PROXY_SSL_HEADER and not settings.TRUSTED_PROXIES:
        yield Warning(
            "NEHIR_TRUSTED_PROXIES is not set: behind a proxy all clients have its address.",
            hint="Name the proxy that ends TLS; keys' networks and records go by the address.",
            id="nehir.W009",
        )
