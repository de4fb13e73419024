from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class PlatformRole(models.TextChoices):
    """What somebody is on the platform itself. An auditor or a billing clerk here is one of all
    tenants; `Role` has those of a single tenant."""

    OPERATOR = "operator", _("Operator")
    RELEASE_MANAGER = "release_manager", _("Release manager")
    APPROVER = "approver", _("Approver")
    AUDITOR = "auditor", _("Auditor")
    BILLING = "billing", _("Billing")


class PlatformGrant(models.Model):
    """A platform role that a person has. Superusers are operators without one."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("user")
    )
    role = models.CharField(_("role"), max_length=16, choices=PlatformRole.choices)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("platform role")
        verbose_name_plural = _("platform roles")
        constraints = [
            models.UniqueConstraint(fields=["user", "role"], name="platform_role_once_per_person"),
            models.CheckConstraint(
                condition=models.Q(role__in=PlatformRole.values), name="platform_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_role_display()})"
