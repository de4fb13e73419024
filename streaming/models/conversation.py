from __future__ import annotations

from functools import partial

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id
from tenants.models.scoped import ScopedModel


class Conversation(ScopedModel):
    """A person's chat with a model. Only its owner reads it."""

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "cnv"), editable=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("user")
    )
    title = models.CharField(_("title"), max_length=120, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now)

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        indexes = [
            models.Index(fields=["tenant", "user", "-updated_at"], name="conversation_recent"),
            models.Index(fields=["tenant", "-updated_at", "-id"], name="conversation_by_tenant"),
            models.Index(fields=["-updated_at", "-id"], name="conversation_by_time"),
        ]

    def __str__(self) -> str:
        """The id: this text is shown to others than the owner (the admin, deletion pages, logs)."""
        return self.id

    @property
    def heading(self) -> str:
        """What its owner calls it."""
        return self.title or self.id
