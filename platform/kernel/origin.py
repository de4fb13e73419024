"""Where what is being done comes from: what an audit record tells of a request beside its actor.

Set once a request by the middleware, read by services, which know no requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

SESSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Origin:
    """request_id, ip: of the request; empty outside of one
    session: `digest_of` the session's key
    login: who is at the keyboard, of a command that somebody runs by hand
    """

    request_id: str = ""
    ip: str = ""
    session: str = ""
    login: str = ""


NOWHERE = Origin()
_current: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)


def current() -> Origin:
    return _current.get()


@contextmanager
def entered(origin: Origin) -> Iterator[None]:
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def digest_of(session_key: str | None) -> str:
    """What two records of one session have in common, and nobody can sign in with: the key itself
    is as good as a password.
    """
    if not session_key:
        return ""
    return hashlib.sha256(session_key.encode()).hexdigest()[:SESSION_DIGITS]
