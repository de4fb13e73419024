"""One decorator says of an operation what it needs, takes, answers and may refuse: it is carried
out by that, and described by it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django_filters import FilterSet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from console.api import changing
from console.api.description import filter_parameters
from console.api.fields import Shape
from console.api.problems import CONTENT_TYPE, Invalid
from console.api.shapes.problem import ProblemShape
from tenants.audit_actions import AuditAction
from tenants.permissions import Action
from tenants.services.audit import Target

SAFE = ("GET", "HEAD")
PAGING = frozenset({"cursor", "limit"})
JSON = "application/json"
ALWAYS = (400, 401, 403, 406, 429, 503)
WITH_BODY = (413, 415)
Method = Callable[..., Any]


def operation(
    name: str,
    summary: str,
    *,
    needs: Action | None,
    answer: Any,
    status: int = 200,
    body: type[Shape] | None = None,
    tells: AuditAction | None = None,
    filters: type[FilterSet] | None = None,
    query: Sequence[OpenApiParameter] = (),
    if_match: bool = False,
    errors: Sequence[int] = (),
    about: str = "",
    media_type: str = JSON,
) -> Callable[[Method], Method]:
    """Wraps a resource's method, which is called with the request, the ids in the address by name
    and, if there is a `body`, what was asked for, valid.

    name: operationId
    needs: what the caller must be allowed, in the tenant that the address names or on the platform;
        the tenant's rows, or all, are in sight then. None: whoever has come in, and no rows
    answer: a shape, or several (`many=True`), or None for no content
    tells: in the log, if a service refuses it by a rule
    errors: statuses beside those that go without saying
    """
    known = {each.name for each in query}
    known |= set(filters.base_filters) if filters else set()
    known |= PAGING if getattr(answer, "many", False) else set()

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def wrapped(self: Any, request: Request, **ids: str) -> Any:
            tenant_id = ids.get("tenant_id")
            if needs is not None:
                self.caller.require(needs, tenant_id)
            _check_query(request, known)
            asked = {"body": _read(request, body)} if body is not None else {}
            call = functools.partial(method, self, request, **ids, **asked)
            with self.caller.within(tenant_id, sees_rows=needs is not None):
                if request.method in SAFE:
                    return call()
                target = Target(*_thing(ids))
                return changing.change(request, self.caller, call, tells=tells, target=target)

        described = extend_schema(
            operation_id=name,
            summary=summary,
            description=about or summary,
            request={JSON: body} if body is not None else None,
            responses=_responses(answer, status, media_type, _errors(method, body, errors)),
            parameters=[*query, *_headers(method.__name__, answer, if_match)]
            + (filter_parameters(filters) if filters else []),
        )
        return described(wrapped)

    return decorate


def _read(request: Request, shape: type[Shape]) -> Any:
    """What was asked for. Raises what the parser and the shape do."""
    asked = shape(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data


def _check_query(request: Request, known: set[str]) -> None:
    """A parameter that is not known might be a filter that was misspelt."""
    asked = dict(request.query_params.lists())
    faults = {name: "Unknown parameter." for name in asked if name not in known}
    faults |= {name: "It is empty." for name in asked if "" in asked[name]}
    faults |= {name: "It is there twice." for name in asked if len(asked[name]) > 1}
    if faults:
        told = [{"pointer": name[:100], "detail": detail} for name, detail in faults.items()]
        raise Invalid("A parameter is not valid.", told)


def _thing(ids: Mapping[str, str]) -> tuple[str, str]:
    """What the address names: `key_id` is an `apikey`, as records say it."""
    names = {"key_id": "apikey", "account_id": "serviceaccount", "person_id": "member"}
    for name, kind in names.items():
        if name in ids:
            return kind, ids[name]
    return ("tenant", ids["tenant_id"]) if "tenant_id" in ids else ("", "")


def _errors(method: Method, body: Any, errors: Sequence[int]) -> set[int]:
    """Those that go without saying, and those said."""
    codes = {*ALWAYS, *errors}
    if body is not None:
        codes |= {*WITH_BODY}
    if method.__name__ != "get":
        codes |= {409}
    has_ids = any(name.endswith("_id") for name in inspect.signature(method).parameters)
    return codes | {404} if has_ids else codes


def _responses(answer: Any, status: int, media_type: str, codes: set[int]) -> dict[Any, Any]:
    phrase = HTTPStatus(status).phrase
    is_list = getattr(answer, "many", False)
    told: Any = answer if is_list else OpenApiResponse(answer, description=phrase)
    return {
        (status, media_type) if answer is not None else status: told,
        **{
            (code, CONTENT_TYPE): OpenApiResponse(ProblemShape, description=HTTPStatus(code).phrase)
            for code in sorted(codes)
        },
    }


def _headers(method: str, answer: Any, if_match: bool) -> list[OpenApiParameter]:
    text = {"type": "string"}
    told = [_header("X-Request-Id", text, "Names the request in logs.", response=True)]
    if method == "post":
        key = {"type": "string", "pattern": "^[!-~]{1,255}$", "minLength": 1, "maxLength": 255}
        about = "The same key with the same request is answered as the first time, and done once."
        told.append(_header(changing.HEADER, key, about))
    if if_match:
        about = "ETag of what was read: what was changed since is not overwritten (412)."
        told.append(_header("If-Match", text, about))
    if getattr(answer, "many", False):
        told.append(_header("Link", text, 'The next page, `rel="next"`.', response=[200]))
    return told


def _header(name: str, schema: Any, about: str, *, response: Any = False) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        OpenApiTypes.STR if schema == {"type": "string"} else schema,
        OpenApiParameter.HEADER,
        description=about,
        response=response,
    )
