"""Where a request comes from, behind proxies that are trusted to tell."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from kernel.networks import Address, as_address, contains

# More than any chain of proxies; what a client makes up in front isn't read.
MOST_HOPS = 32


def client_address(request: HttpRequest) -> Address | None:
    """The peer; or, if that is a trusted proxy, whom it names as its own peer in X-Forwarded-For,
    and so on, from the end: the first that isn't trusted is the client. Addresses before that are
    its own to write, and are not believed.

    None if it can't be told: a peer without an address, or a trusted proxy that names none.
    """
    address = as_address(request.META.get("REMOTE_ADDR") or "")
    trusted = settings.TRUSTED_PROXIES
    if not contains(trusted, address):
        return address
    named = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", MOST_HOPS)[-MOST_HOPS:]
    for text in reversed(named):
        address = as_address(text)
        if not contains(trusted, address):
            return address
    return None
