from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.priority import Priority
from tenants.models.scoped import ScopedModel


class ApiKey(ScopedModel):
    """A secret that lets an application in. Only its HMAC is kept; the secret is shown once.

    id: public part of the key, 24 characters; the key itself is `nhr_<id>_<secret>`
    digest: HMAC-SHA256 of the secret under the pepper of `pepper_version`, 64 hex digits
    """

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    service_account = models.ForeignKey(
        "tenants.ServiceAccount",
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("service account"),
    )
    name = models.CharField(_("name"), max_length=100)
    highest_priority = models.CharField(
        _("highest priority"),
        max_length=16,
        choices=Priority,
        default=Priority.STANDARD,
        db_default=Priority.STANDARD,
        help_text=_("That its requests may ask for, if the tenant's highest is not lower."),
    )
    digest = models.CharField(max_length=64, editable=False)
    pepper_version = models.PositiveSmallIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        constraints = [
            models.CheckConstraint(
                condition=models.Q(highest_priority__in=Priority.values),
                name="api_key_priority_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (nhr_{self.id}…)"

    def status(self, *, now: datetime) -> str:
        """active, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if self.is_usable(now=now) else "expired"

    def is_usable(self, *, now: datetime) -> bool:
        expired = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not expired
