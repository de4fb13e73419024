"""Who asks the management API: an application by an admin-scoped key, or a person by a session.

A person is asked for nothing but the address: the tenant is the one that it names, and whatever
they are there or on the platform holds, wherever they are in the admin.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from kernel import origin
from kernel.errors import NotFound, PermissionDenied
from kernel.ids import is_id
from tenants import scope
from tenants.models import Tenant
from tenants.permissions import Action, Standing, allowed
from tenants.principal import Actor


@dataclass(frozen=True, slots=True)
class Caller:
    """actor: who it is, as services and the audit log take it
    standing: all that they are
    session: `kernel.origin.digest_of` the session's key; empty for a key
    """

    actor: Actor
    standing: Standing
    session: str = ""

    def may(self, action: Action, tenant_id: str | None) -> bool:
        return allowed(self.standing, action, tenant_id)

    def require(self, action: Action, tenant_id: str | None) -> None:
        """Raises NotFound for a tenant that is none of theirs, whether there is such a tenant or
        not, and PermissionDenied where they may not do this.
        """
        is_theirs = tenant_id is None or tenant_id in self.standing.tenants
        if not is_theirs and not self.standing.platform:
            raise no_tenant()
        if not self.may(action, tenant_id):
            raise PermissionDenied("Your role does not let you do this.")
        if tenant_id is not None and not is_theirs and not _is_there(tenant_id):
            raise no_tenant()

    @contextmanager
    def within(self, tenant_id: str | None, *, sees_rows: bool) -> Iterator[None]:
        """The tenant's rows, or, for None, the whole platform's, are in sight; none unless
        `sees_rows`.
        """
        rows: Any = nullcontext()
        if sees_rows:
            rows = scope.whole_platform() if tenant_id is None else scope.tenant(tenant_id)
        with rows, origin.entered(replace(origin.current(), session=self.session)):
            yield


def no_tenant() -> NotFound:
    return NotFound("There is no such tenant.", code="tenant_not_found")


def _is_there(tenant_id: str) -> bool:
    return is_id(tenant_id) and Tenant.objects.filter(pk=tenant_id).exists()
