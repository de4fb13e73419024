"""Errors of the management API: problem details (RFC 9457) with the codes of the one tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core import exceptions as django_errors
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.settings import api_settings

from kernel import origin
from kernel.errors import (
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    PermissionDenied,
    PlatformError,
    RateLimited,
    Unauthenticated,
    UnsupportedMediaType,
)
from web.errors import as_platform_error

CONTENT_TYPE = "application/problem+json"
Fault = dict[str, str]


class Invalid(BadRequest):
    """faults: each `{"pointer", "detail"}`, the pointer a JSON pointer (RFC 6901) into the body, or
    the name of a parameter of the query
    """

    def __init__(self, message: str, faults: list[Fault], *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.faults = faults


def problem(error: PlatformError) -> JsonResponse:
    body: dict[str, Any] = {
        "type": f"urn:nehir:problem:{error.code}",
        "title": HTTPStatus(error.http_status).phrase,
        "status": error.http_status,
        "detail": error.message,
        "code": error.code,
        "request_id": origin.current().request_id,
    }
    if faults := _faults(error):
        body["errors"] = faults
    response = JsonResponse(body, status=error.http_status, content_type=CONTENT_TYPE)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.http_status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def handle(error: Exception, context: dict[str, Any]) -> JsonResponse:
    """DRF's handler of exceptions."""
    view = context["view"]
    response = problem(translated(error))
    if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(view.allowed_methods)
    return response


def translated(error: Exception) -> PlatformError:
    """DRF's and Django's errors in the words of the tree."""
    if isinstance(error, exceptions.ValidationError):
        return Invalid("The request is not valid; `errors` says where.", list(_flat(error.detail)))
    if isinstance(error, exceptions.APIException):
        return _of_drf(error)
    if isinstance(error, Http404):
        return NotFound("There is no such thing.")
    if isinstance(error, django_errors.PermissionDenied):
        return PermissionDenied("Your role does not let you do this.")
    if isinstance(error, django_errors.RequestDataTooBig | django_errors.SuspiciousOperation):
        return BadRequest("The request can't be read.")
    return as_platform_error(error)


def _of_drf(error: exceptions.APIException) -> PlatformError:
    text = str(error.detail)
    if isinstance(error, exceptions.Throttled):
        return RateLimited("Too many requests.", retry_after_s=getattr(error, "wait", None))
    families: list[tuple[type[Exception], type[PlatformError]]] = [
        (exceptions.ParseError, BadRequest),
        (exceptions.NotAuthenticated, Unauthenticated),
        (exceptions.AuthenticationFailed, Unauthenticated),
        (exceptions.PermissionDenied, PermissionDenied),
        (exceptions.NotFound, NotFound),
        (exceptions.MethodNotAllowed, MethodNotAllowed),
        (exceptions.NotAcceptable, NotAcceptable),
        (exceptions.UnsupportedMediaType, UnsupportedMediaType),
    ]
    for family, ours in families:
        if isinstance(error, family):
            return ours(text)
    return as_platform_error(error)


def _faults(error: PlatformError) -> list[Fault]:
    if isinstance(error, Invalid):
        return error.faults
    if error.param and isinstance(error, BadRequest):
        return [{"pointer": f"/{error.param}", "detail": error.message}]
    return []


def _flat(detail: Any, pointer: str = "") -> Iterator[Fault]:
    """A serializer's tree of errors, leaf by leaf."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            here = "" if name == api_settings.NON_FIELD_ERRORS_KEY else f"/{_escaped(str(name))}"
            yield from _flat(inner, pointer + here)
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            yield from _flat(inner, f"{pointer}/{number}" if nested else pointer)
    else:
        yield {"pointer": pointer, "detail": str(detail)}


def _escaped(name: str) -> str:
    return name[:100].replace("~", "~0").replace("/", "~1")
