from __future__ import annotations

from functools import partial

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id
from tenants.models.scoped import ScopedModel


class Author(models.TextChoices):
    USER = "user", _("You")
    ASSISTANT = "assistant", _("Assistant")


class Message(ScopedModel):
    """One turn of a conversation. An assistant's message is written when its generation is settled.

    generation_id: the generation that made it, for the assistant; empty for the user
    finish_reason: why the answer ended: stop, length, cancelled or error; empty for the user
    """

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "msg"), editable=False
    )
    conversation = models.ForeignKey(
        "streaming.Conversation",
        on_delete=models.CASCADE,
        related_name="messages",
        verbose_name=_("conversation"),
    )
    author = models.CharField(_("author"), max_length=16, choices=Author.choices)
    text = models.TextField(_("text"))
    generation_id = models.CharField(max_length=MAX_LENGTH, blank=True)
    finish_reason = models.CharField(_("finish reason"), max_length=32, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(
                fields=["generation_id"],
                condition=~models.Q(generation_id=""),
                name="message_once_per_generation",
            ),
        ]

    def __str__(self) -> str:
        return self.id
