from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants import key_format, key_scopes
from tenants.models.priority import Priority
from tenants.models.scoped import ScopedModel


def default_scopes() -> list[str]:
    return sorted(key_scopes.DEFAULT)


class ApiKey(ScopedModel):
    """A secret that lets an application in. Only its HMAC is kept; the secret is shown once.

    id: public part of the key, 24 characters; the key itself is `nhr_<environment>_<id>_<secret>`
    digest: HMAC-SHA256 of the secret under the pepper of `pepper_version`, 64 hex digits
    scopes: what it may be used for (`tenants.key_scopes`)
    model_names: the routes it may ask, by name; empty: all
    networks: where it may be used from, as `10.0.0.0/8`; empty: anywhere
    last_used_at: to the minute
    created_by: who issued it, as `tenants.principal.actor_name` says it
    replaces: id of the key that it was issued in place of, by rotation
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
    scopes = models.JSONField(_("may be used for"), default=default_scopes)
    model_names = models.JSONField(_("models"), default=list, blank=True)
    networks = models.JSONField(_("networks"), default=list, blank=True)
    digest = models.CharField(max_length=64, editable=False)
    pepper_version = models.PositiveSmallIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    created_by = models.CharField(_("created by"), max_length=64, blank=True, editable=False)
    replaces = models.CharField(_("replaces"), max_length=32, blank=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
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
        return f"{self.name} ({self.prefix}…)"

    @property
    def prefix(self) -> str:
        """The public part, by which people know it."""
        return key_format.prefix(settings.KEY_ENVIRONMENT, self.pk)

    def status(self, *, now: datetime) -> str:
        """active, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if self.is_usable(now=now) else "expired"

    def is_usable(self, *, now: datetime) -> bool:
        expired = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not expired
