"""Changes that must not undo another's: the client says what it saw, by its ETag."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from rest_framework.request import Request

from kernel.errors import PreconditionFailed, PreconditionRequired

_TAG = re.compile(r'"[\x21\x23-\x7e]*"')


def etag_of(data: Any) -> str:
    """Of a representation: the same for the same fields and values."""
    text = json.dumps(data, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def check(request: Request, data: Any, *, required: bool = False) -> None:
    """data: the representation as it is. Raises PreconditionFailed if the client saw another, and
    PreconditionRequired if it had to say which and didn't.
    """
    asked = request.headers.get("If-Match")
    if asked is None:
        if required:
            raise PreconditionRequired("Send If-Match with the ETag that you saw.")
        return
    if asked.strip() != "*" and etag_of(data) not in _TAG.findall(asked):
        raise PreconditionFailed("It was changed meanwhile: read it again.")
