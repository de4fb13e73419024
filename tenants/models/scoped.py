"""The base of every model whose rows belong to one tenant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from django.db import models

from tenants import scope

M = TypeVar("M", bound=models.Model)


class ScopedQuerySet(models.QuerySet[M]):
    """Rows of the tenant in scope. A row never moves to another tenant."""

    def bulk_create(self, objs: Iterable[M], *args: Any, **kwargs: Any) -> list[M]:
        rows = list(objs)
        for row in rows:
            scope.require(getattr(row, "tenant_id", None))
        return super().bulk_create(rows, *args, **kwargs)

    def update(self, **kwargs: Any) -> int:
        if kwargs.keys() & {"tenant", "tenant_id"}:
            raise scope.ScopeMismatch("A row never moves to another tenant.")
        return super().update(**kwargs)


class ScopedManager(models.Manager[M]):
    """Shows the rows of the tenant in scope; raises ScopeMissing outside a scope."""

    def get_queryset(self) -> ScopedQuerySet[M]:
        tenant_id = scope.current().tenant_id
        rows: ScopedQuerySet[M] = ScopedQuerySet(self.model, using=self._db)
        return rows if tenant_id is None else rows.filter(tenant_id=tenant_id)


class ScopedModel(models.Model):
    """Rows are read, written, followed from other rows and deleted inside a scope alone.

    Raises ScopeMissing outside a scope, ScopeMismatch for a row saved in another tenant's scope.
    """

    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")

    objects: ClassVar[ScopedManager[Any]] = ScopedManager()

    class Meta:
        abstract = True
        # Django's own base manager sees every row: it serves foreign keys, cascades, refreshes and
        # the UPDATE of a save. Inherited by the subclasses, whose Meta doesn't say otherwise.
        base_manager_name = "objects"

    def save(self, *args: Any, **kwargs: Any) -> None:
        scope.require(self.tenant_id)
        super().save(*args, **kwargs)
