from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.scoped import ScopedModel


class Role(models.TextChoices):
    """What somebody is in a tenant; `tenants.permissions` says what they may do."""

    OWNER = "owner", _("Owner")
    ADMIN = "admin", _("Admin")
    MEMBER = "member", _("Member")
    BILLING = "billing", _("Billing")
    AUDITOR = "auditor", _("Auditor")


class Membership(ScopedModel):
    """A person's role in a tenant."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("user")
    )
    role = models.CharField(_("role"), max_length=16, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_once_per_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"
