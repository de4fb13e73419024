from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from tenants.priority import CLASSES, PriorityClass

MOST_MS = 60_000


class Detached(models.TextChoices):
    HOLD = "hold", _("Wait, then keep it as a checkpoint")
    FINISH = "finish", _("Run to its end")
    CANCEL = "cancel", _("End it at once")


def _objective(label: Any, help_text: Any) -> models.PositiveIntegerField[int | None, int | None]:
    return models.PositiveIntegerField(
        label,
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_MS)],
        help_text=help_text,
    )


class Route(models.Model):
    """A public model name and the release that answers to it.

    itl_p95_..._ms: of the time between tokens, the p95 in milliseconds that the requests of a class
        are to have; none: it has no objective
    """

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
    itl_p95_interactive_ms = _objective(
        _("interactive: between tokens (ms)"),
        _(
            "Nineteen of twenty tokens are to come within this time after the one before; requests "
            "that would break it wait. Empty: no objective."
        ),
    )
    itl_p95_standard_ms = _objective(
        _("standard: between tokens (ms)"),
        _("The same for standard requests. Of classes that run together the tightest counts."),
    )
    itl_p95_batch_ms = _objective(
        _("batch: between tokens (ms)"),
        _("The same for batch requests, which go further than others only while none of them run."),
    )
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        ordering = ("name",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(**{f"itl_p95_{each}_ms__isnull": True})
                | models.Q(**{f"itl_p95_{each}_ms__range": (1, MOST_MS)}),
                name=f"route_itl_p95_{each}_in_range",
            )
            for each in CLASSES
        ]

    def __str__(self) -> str:
        return self.name

    def itl_p95_ms(self, priority_class: PriorityClass) -> int | None:
        wanted: int | None = getattr(self, f"itl_p95_{priority_class}_ms")
        return wanted

    def clean(self) -> None:
        """A class that is served first is not to be served worse."""
        wanted = [(each, ms) for each in CLASSES if (ms := self.itl_p95_ms(each)) is not None]
        for (_higher, of_higher), (lower, of_lower) in pairwise(wanted):
            if of_lower < of_higher:
                raise ValidationError(
                    {f"itl_p95_{lower}_ms": _("A lower class can't have a tighter objective.")}
                )
