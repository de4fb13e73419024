"""Reading a body: JSON alone, small, flat, and nothing in it twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.parsers import BaseParser

from kernel.errors import BadRequest, BodyTooLarge

# Far above any body that has a use here.
MAX_BYTES = 65_536
MAX_DEPTH = 8


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Raises BodyTooLarge and BadRequest `invalid_json`."""
        raw: bytes = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise BodyTooLarge(f"The request body is larger than {MAX_BYTES} bytes.")
        try:
            found = json.loads(
                raw.decode(), object_pairs_hook=_no_name_twice, parse_constant=_no_constant
            )
        except (ValueError, RecursionError) as error:
            raise _unreadable("The body is no JSON.") from error
        if not isinstance(found, dict):
            raise _unreadable("The body is no JSON object.")
        if _depth(found) > MAX_DEPTH:
            raise _unreadable(f"The body is nested deeper than {MAX_DEPTH} levels.")
        return found


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _depth(value: Any) -> int:
    """Without recursion: how deep it is is what is in question."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict | list):
            inner = each.values() if isinstance(each, dict) else each
            waiting += [(one, depth + 1) for one in inner if isinstance(one, dict | list)]
    return deepest


def _unreadable(message: str) -> BadRequest:
    return BadRequest(message, code="invalid_json")
