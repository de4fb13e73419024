"""`/metrics` for Prometheus: this process's numbers, or every web process's with
PROMETHEUS_MULTIPROC_DIR.

Numbers tell about tenants and load, so the page isn't for everybody:
- with NEHIR_METRICS_TOKEN set, `Authorization: Bearer <token>` is required from everybody;
- without one, outside production, it answers loopback and private addresses that ask directly;
- without one, in production, it answers nobody.
"""

from __future__ import annotations

import ipaddress
from hmac import compare_digest

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_prometheus.exports import ExportToDjangoView

# Headers of a proxy: behind one, the address of the peer is the proxy's and says nothing.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")


@never_cache
@require_safe
async def metrics(request: HttpRequest) -> HttpResponse:
    """The numbers in Prometheus' text format; 401 without the token, 403 for a stranger."""
    if settings.METRICS_TOKEN:
        if not _holds_token(request):
            headers = {"WWW-Authenticate": "Bearer"}
            return _refusal(401, _("The metrics token is missing or wrong."), headers)
    elif settings.PRODUCTION or not _is_neighbour(request):
        return _refusal(403, _("Set NEHIR_METRICS_TOKEN to read the metrics from here."), {})
    # Multiprocess mode reads a file a process: in a thread, and not in the request's own one.
    response: HttpResponse = await sync_to_async(ExportToDjangoView, thread_sensitive=False)(
        request
    )
    return response


def _holds_token(request: HttpRequest) -> bool:
    scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
    right: str = settings.METRICS_TOKEN
    return scheme.lower() == "bearer" and compare_digest(token.strip().encode(), right.encode())


def _is_neighbour(request: HttpRequest) -> bool:
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:  # a unix socket has none
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_private


def _refusal(status: int, text: str, headers: dict[str, str]) -> HttpResponse:
    return HttpResponse(text, status=status, headers=headers, content_type="text/plain")
