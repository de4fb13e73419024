"""A request's right to go on, for as long as it is open: what is taken from its principal meanwhile
ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kernel.errors import PlatformError, Unauthenticated
from kernel.networks import Address
from tenants import authorization
from tenants.key_scopes import KeyScope
from tenants.principal import Principal

Need = Callable[[Principal], None]


class AccessEnded(Unauthenticated):
    """What let the request in no longer does."""

    code = "access_ended"


class Watch(Protocol):
    """Looks after accesses that are open: renews them, or ends them."""

    def add(self, access: Access) -> None: ...

    def discard(self, access: Access) -> None: ...


class Access:
    """principal: who it is, as of the last look
    where: tells where the request comes from
    is_withdrawn: it has ended because somebody took the right away, and not by its time: what the
    principal has begun is to end as well
    """

    def __init__(
        self, principal: Principal, watch: Watch, where: Callable[[], Address | None]
    ) -> None:
        self.principal = principal
        self.where = where
        self.is_withdrawn = False
        self._watch = watch
        self._needs: list[Need] = []
        self._error: PlatformError | None = None
        self._listeners: list[Callable[[], None]] = []

    def need(self, need: Need) -> None:
        """Needed from now on. Raises PermissionDenied if it isn't granted."""
        self._needs.append(need)
        need(self.principal)

    def need_scope(self, scope: KeyScope) -> None:
        self.need(lambda principal: authorization.check_scope(principal, scope))

    def need_model(self, model: str) -> None:
        self.need(lambda principal: authorization.check_model(principal, model))

    @property
    def error(self) -> PlatformError | None:
        """What has ended it."""
        return self._error

    def check(self) -> None:
        """Raises what has ended it."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def kept(self, tell: Callable[[], None]) -> Iterator[None]:
        """Inside this, it is looked after, and `tell` is called when it ends."""
        self._listeners.append(tell)
        if len(self._listeners) == 1:
            self._watch.add(self)
        try:
            yield
        finally:
            self._listeners.remove(tell)
            if not self._listeners:
                self._watch.discard(self)

    def renew(self, principal: Principal) -> None:
        """Go on as this principal. Raises PermissionDenied if something needed isn't granted."""
        self.principal = principal
        for need in self._needs:
            need(principal)

    def end(self, error: PlatformError, *, is_withdrawn: bool) -> None:
        """Once; later ends change nothing."""
        if self._error is not None:
            return
        self._error, self.is_withdrawn = error, is_withdrawn
        for tell in list(self._listeners):
            tell()
