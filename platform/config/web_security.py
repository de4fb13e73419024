"""What browsers are told to refuse: the content policy of pages, and headers of every answer.

Imported by `config.settings`; `web.content_policy` and `web.secure_headers` put it on answers. ADR
16 says what the admin needs beyond the rest, and what that costs.
"""

from __future__ import annotations

from typing import Any

from csp.constants import NONCE, NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE

# Of pages. No inline script and no inline style but by nonce; `connect-src` gets the page's own
# origin for sockets, which older browsers don't count as 'self'.
PAGES: dict[str, Any] = {
    "default-src": [NONE],
    "script-src": [SELF, NONCE],
    "script-src-attr": [NONE],
    "style-src": [SELF, NONCE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "manifest-src": [SELF],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
    "object-src": [NONE],
}
# Added under an address: unfold's Alpine compiles the expressions in its attributes, and sets
# styles as attributes. Neither lets an inline script run.
MORE: dict[str, dict[str, list[str]]] = {
    "/admin/": {"script-src": [UNSAFE_EVAL], "style-src-attr": [UNSAFE_INLINE]},
}
# Of what isn't a page: answers of the API, probes, files. Opened by itself it can do nothing.
NOT_A_PAGE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# Where an answer doesn't say otherwise. Answers are for whoever asked, unless they say otherwise.
HEADERS = {
    "content-security-policy": NOT_A_PAGE,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": ", ".join(
        f"{feature}=()"
        for feature in (
            "accelerometer",
            "browsing-topics",
            "camera",
            "display-capture",
            "geolocation",
            "gyroscope",
            "magnetometer",
            "microphone",
            "midi",
            "payment",
            "serial",
            "usb",
        )
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def pages(*, production: bool) -> dict[str, Any]:
    """django-csp's setting."""
    upgrade = {"upgrade-insecure-requests": True} if production else {}
    return {"DIRECTIVES": PAGES | upgrade}


def cookie_name(name: str, *, production: bool) -> str:
    """With `__Host-` a browser keeps it only if this very host set it over HTTPS, for all paths: no
    neighbour on another subdomain, and nobody on the way, can put one of theirs in its place.
    """
    return f"__Host-{name}" if production else name
