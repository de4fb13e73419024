from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tenants.models.scoped import ScopedModel


class UsageHour(ScopedModel):
    """What one person or application used of one model in one hour: the sum of the generations that
    were settled in it. `inference.services.usage` writes it, and can make it anew.

    hour: its beginning, in UTC
    error_code: of what failed; empty for what did not
    requests: settled, however they ended; cancelled: those that their reader ended
    """

    hour = models.DateTimeField(_("hour"))
    route = models.ForeignKey(
        "inference.Route", on_delete=models.PROTECT, related_name="+", verbose_name=_("model")
    )
    principal = models.CharField(_("principal"), max_length=64)
    key_id = models.CharField(_("API key"), max_length=32, blank=True)
    error_code = models.CharField(_("error"), max_length=64, blank=True)
    requests = models.PositiveBigIntegerField(_("requests"), default=0)
    cancelled = models.PositiveBigIntegerField(_("cancelled"), default=0)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"), default=0)
    cached_tokens = models.PositiveBigIntegerField(_("cached prompt tokens"), default=0)
    output_tokens = models.PositiveBigIntegerField(_("output tokens"), default=0)

    class Meta:
        verbose_name = _("hour of usage")
        verbose_name_plural = _("hours of usage")
        indexes = [models.Index(fields=["hour"], name="usage_hour_by_hour")]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "hour", "route", "principal", "key_id", "error_code"],
                name="usage_hour_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.principal} {self.hour:%Y-%m-%d %H:%M}"
