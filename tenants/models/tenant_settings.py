from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant


class TenantSettings(Tenant):
    """A tenant as its own people set it up: the same row, for another page."""

    class Meta:
        proxy = True
        verbose_name = _("settings")
        verbose_name_plural = _("settings")
