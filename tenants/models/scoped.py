"""The base of every model whose rows belong to one tenant."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.db import models

from tenants import scope

M = TypeVar("M", bound=models.Model)


class ScopedManager(models.Manager[M]):
    """Shows the rows of the tenant in scope; raises ScopeMissing outside a scope."""

    def get_queryset(self) -> models.QuerySet[M]:
        tenant_id = scope.current().tenant_id
        rows = super().get_queryset()
        return rows if tenant_id is None else rows.filter(tenant_id=tenant_id)


class ScopedModel(models.Model):
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+")

    objects: ClassVar[ScopedManager[Any]] = ScopedManager()

    class Meta:
        abstract = True
