"""Tenant scope: deny by default.

Every query on a tenant's rows happens inside a scope; outside one it raises. Web code enters the
scope of the authenticated principal, tasks take a tenant's id and enter it, and the few places that
must see everything say so by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class ScopeMissing(Exception):
    """A tenant's rows were asked for outside a tenant scope. A bug, never a user's fault."""


class ScopeMismatch(Exception):
    """A row of one tenant was written in another one's scope. A bug, never a user's fault."""


@dataclass(frozen=True, slots=True)
class Scope:
    """tenant_id: the one tenant in sight, or None for the whole platform."""

    tenant_id: str | None


_current: ContextVar[Scope | None] = ContextVar("tenant_scope", default=None)


def current() -> Scope:
    """The scope in force. Raises ScopeMissing outside one."""
    scope = _current.get()
    if scope is None:
        raise ScopeMissing(
            "No tenant scope is active. Enter one with tenants.scope.tenant(id) first."
        )
    return scope


def require(tenant_id: str | None) -> None:
    """Raise ScopeMismatch unless a row of this tenant may be written in the scope in force."""
    seen = current().tenant_id
    if seen is not None and tenant_id != seen:
        raise ScopeMismatch("The row belongs to another tenant than the one in scope.")


@contextmanager
def tenant(tenant_id: str) -> Iterator[Scope]:
    """See this tenant's rows alone."""
    with _enter(Scope(tenant_id)) as scope:
        yield scope


@contextmanager
def whole_platform() -> Iterator[Scope]:
    """See every tenant's rows: for operators, the engine host's settlement, maintenance."""
    with _enter(Scope(None)) as scope:
        yield scope


@contextmanager
def _enter(scope: Scope) -> Iterator[Scope]:
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)
