from __future__ import annotations

from functools import partial

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id
from tenants.models.scoped import ScopedModel


class ServiceAccount(ScopedModel):
    """An application of a tenant. API keys belong to it: they come and go, the account stays."""

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "sva"), editable=False
    )
    name = models.CharField(_("name"), max_length=100)
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("service account")
        verbose_name_plural = _("service accounts")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], name="service_account_name_in_tenant"
            ),
        ]

    def __str__(self) -> str:
        return self.name
