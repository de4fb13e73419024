"""Carrying out what changes something: in one transaction, once for an Idempotency-Key, and with a
record of what a service refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from console.api.caller import Caller
from console.api.problems import Invalid
from kernel.database import writing
from kernel.errors import PlatformError
from tenants import scope
from tenants.audit_actions import AuditAction
from tenants.principal import actor_name
from tenants.services import idempotency
from tenants.services.audit import Target
from tenants.services.idempotency import Reply
from tenants.services.refusals import record_refusal

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
WELL_FORMED = re.compile(r"[\x21-\x7e]{1,255}")
# Shown once: not kept, not even for the one who may see them.
SECRETS = ("secret",)
KEPT_HEADERS = ("ETag", "Location")
Call = Callable[[], Response]


def change(
    request: Request, caller: Caller, call: Call, *, tells: AuditAction | None, target: Target
) -> Response:
    """call: what changes something; its errors leave nothing behind but, where a rule refused it, a
    record.
    """

    def carry_out() -> Response:
        try:
            with writing():
                return call()
        except PlatformError as error:
            _record(error, caller, tells, target)
            raise

    if request.method != "POST" or HEADER not in request.headers:
        return carry_out()
    return _once(request, caller, call, lambda error: _record(error, caller, tells, target))


def _once(
    request: Request, caller: Caller, call: Call, refused: Callable[[PlatformError], None]
) -> Response:
    begun = idempotency.begin(
        principal=actor_name(caller.actor),
        key=_key(request),
        request=_what_is_asked(request),
        now=timezone.now(),
    )
    if isinstance(begun, Reply):
        body = json.loads(begun.body) if begun.body else None
        return Response(body, status=begun.status, headers={**begun.headers, REPLAYED: "true"})
    try:
        with writing():
            idempotency.hold(begun)
            response = call()
            idempotency.keep(begun, _reply(response))
    except BaseException as error:
        idempotency.give_up(begun)
        if isinstance(error, PlatformError):
            refused(error)
        raise
    return response


def _key(request: Request) -> str:
    key = request.headers[HEADER]
    if not WELL_FORMED.fullmatch(key):
        raise Invalid(
            "A header is not valid.",
            [{"pointer": HEADER, "detail": "1 to 255 visible characters of ASCII."}],
        )
    return key


def _what_is_asked(request: Request) -> bytes:
    asked = request._request  # noqa: SLF001 - documented by DRF
    return f"{asked.method} {asked.get_full_path()}\n".encode() + asked.body


def _reply(response: Response) -> Reply:
    data: Any = response.data
    if isinstance(data, dict):
        data = data | {name: None for name in SECRETS if name in data}
    body = "" if data is None else json.dumps(data, cls=JSONEncoder)
    headers = {name: response[name] for name in KEPT_HEADERS if name in response}
    return Reply(response.status_code, body, headers)


def _record(
    error: PlatformError, caller: Caller, tells: AuditAction | None, target: Target
) -> None:
    record_refusal(
        tells,
        error,
        actor=caller.actor,
        now=timezone.now(),
        tenant_id=scope.current().tenant_id,
        target=target,
    )
