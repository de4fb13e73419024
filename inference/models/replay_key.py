from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH
from tenants.models.scoped import ScopedModel


class ReplayKey(ScopedModel):
    """Which generation answers a request that comes again: by its Idempotency-Key, or, where a
    route allows it, by what it asks for.

    key_digest: SHA-256 of the key; body_digest: of what was asked with it; 64 hex digits each
    """

    principal = models.CharField(max_length=64, editable=False)
    key_digest = models.CharField(max_length=64, editable=False)
    body_digest = models.CharField(max_length=64, editable=False)
    generation_id = models.CharField(max_length=MAX_LENGTH, editable=False)
    expires_at = models.DateTimeField(_("expires"))

    class Meta:
        verbose_name = _("replay key")
        verbose_name_plural = _("replay keys")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "principal", "key_digest"], name="replay_key_once"
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="replay_key_expiry")]

    def __str__(self) -> str:
        return self.generation_id
