from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH
from tenants.models.scoped import ScopedModel


class Checkpoint(ScopedModel):
    """An answer that was taken out of its engine for want of a reader, and can go on.

    request: the queued request with its progress, as it goes back into the queue
    seq: tokens made so far; size_bytes: of `request`
    """

    generation_id = models.CharField(max_length=MAX_LENGTH, unique=True, editable=False)
    request = models.BinaryField(editable=False)
    seq = models.PositiveIntegerField(_("tokens so far"))
    size_bytes = models.PositiveIntegerField(_("size (bytes)"))
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("expires"))

    class Meta:
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        indexes = [
            models.Index(fields=["expires_at"], name="checkpoint_expiry"),
            models.Index(fields=["tenant", "created_at"], name="checkpoint_by_tenant"),
        ]

    def __str__(self) -> str:
        return self.generation_id
