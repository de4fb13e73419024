from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Detached(models.TextChoices):
    HOLD = "hold", _("Wait, then keep it as a checkpoint")
    FINISH = "finish", _("Run to its end")
    CANCEL = "cancel", _("End it at once")


class Route(models.Model):
    """A public model name and the release that answers to it."""

    name = models.CharField(_("public model name"), max_length=100, unique=True)
    release = models.ForeignKey(
        "inference.Release", on_delete=models.PROTECT, related_name="+", verbose_name=_("release")
    )
    detached = models.CharField(
        _("without a reader"),
        max_length=8,
        choices=Detached.choices,
        default=Detached.HOLD,
        help_text=_("What becomes of an answer whose reader is away for longer than the grace."),
    )
    replays = models.BooleanField(
        _("replay identical requests"),
        default=False,
        help_text=_(
            "A request that can only have one answer (temperature 0, or a seed) is answered from "
            "an identical one of the same principal, as long as that is kept."
        ),
    )
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
