from __future__ import annotations

from functools import partial

from django.db import models
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id
from tenants.models.scoped import ScopedModel


class State(models.TextChoices):
    OPEN = "open", _("Open")
    SUSPENDED = "suspended", _("Suspended")
    FINISHED = "finished", _("Finished")
    CANCELLED = "cancelled", _("Cancelled")
    FAILED = "failed", _("Failed")


class Generation(ScopedModel):
    """One answer: admitted here, streamed through its token log, settled exactly once from what the
    log holds.

    prompt_tokens: counted at admission; output_tokens: the log's own count, set when settled
    seal: of which record in the audit log it is a part; null until then
    usage_counted: whether it is in its `UsageHour`; set by the roll-up alone
    """

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "gen"), editable=False
    )
    principal = models.CharField(_("principal"), max_length=64)
    conversation_id = models.CharField(_("conversation"), max_length=MAX_LENGTH, blank=True)
    key_id = models.CharField(_("API key"), max_length=32, blank=True)
    route = models.ForeignKey(
        "inference.Route", on_delete=models.PROTECT, related_name="+", verbose_name=_("model")
    )
    release = models.ForeignKey(
        "inference.Release", on_delete=models.PROTECT, related_name="+", verbose_name=_("release")
    )
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.OPEN)
    finish_reason = models.CharField(_("finish reason"), max_length=32, blank=True)
    error_code = models.CharField(_("error"), max_length=64, blank=True)
    prompt_tokens = models.PositiveIntegerField(_("prompt tokens"))
    cached_tokens = models.PositiveIntegerField(_("cached prompt tokens"), default=0)
    output_tokens = models.PositiveIntegerField(_("output tokens"), default=0)
    created_at = models.DateTimeField(_("created"))
    settled_at = models.DateTimeField(_("settled"), null=True, blank=True)
    usage_counted = models.BooleanField(_("usage counted"), default=False, editable=False)

    seal = models.CharField(  # noqa: DJ001 - added to large tables without writing their rows
        _("seal"), max_length=MAX_LENGTH, null=True, editable=False
    )

    class Meta:
        verbose_name = _("generation")
        verbose_name_plural = _("generations")
        indexes = [
            models.Index(fields=["tenant", "-created_at", "-id"], name="generation_by_tenant"),
            models.Index(
                fields=["created_at"], name="generation_open", condition=models.Q(state="open")
            ),
            models.Index(
                fields=["tenant"],
                name="generation_unsealed",
                condition=models.Q(seal__isnull=True, settled_at__isnull=False),
            ),
            models.Index(
                fields=["seal"],
                name="generation_by_seal",
                condition=models.Q(seal__isnull=False),
            ),
            models.Index(fields=["-created_at", "-id"], name="generation_by_time"),
            models.Index(fields=["principal", "-created_at"], name="generation_by_principal"),
            models.Index(fields=["key_id", "-created_at"], name="generation_by_key"),
            models.Index(
                fields=["settled_at"],
                name="generation_uncounted",
                condition=models.Q(settled_at__isnull=False, usage_counted=False),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["open", "suspended"])
                ^ models.Q(settled_at__isnull=False),
                name="generation_settled_once_not_open",
            ),
        ]

    def __str__(self) -> str:
        return self.id
