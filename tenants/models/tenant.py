from __future__ import annotations

from functools import partial

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id
from tenants.models.priority import Priority

LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100


class Tenant(models.Model):
    """An organisation or department that is served, billed and kept apart from the others.

    is_active: False while it is suspended (`tenants.services.suspension`): the one truth of it
    suspension_reason: what its people are told meanwhile; the audit log says when and by whom
    high_water_tokens, highest_priority: what an operator grants; own_high_water_tokens,
        default_priority: what its own people set within that
    """

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "ten"), editable=False
    )
    slug = models.SlugField(_("slug"), unique=True, max_length=50)
    name = models.CharField(_("name"), max_length=200)
    is_active = models.BooleanField(
        _("active"),
        default=True,
        editable=False,
        help_text=_("A suspended tenant keeps its data; its people and keys are refused."),
    )
    suspension_reason = models.CharField(
        _("suspended because"),
        max_length=200,
        blank=True,
        default="",
        db_default="",
        editable=False,
    )
    high_water_tokens = models.PositiveIntegerField(
        _("read-ahead (tokens)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("How far an answer may be ahead of its reader; empty: the platform's default."),
    )
    own_high_water_tokens = models.PositiveIntegerField(
        _("read-ahead (tokens)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("How far an answer may be ahead of its reader; empty: as far as is granted."),
    )
    weight = models.FloatField(
        _("weight"),
        default=1.0,
        db_default=1.0,
        validators=[MinValueValidator(LEAST_WEIGHT), MaxValueValidator(MOST_WEIGHT)],
        help_text=_("How large its fair share is beside that of a tenant with weight 1."),
    )
    default_priority = models.CharField(
        _("default priority"),
        max_length=16,
        choices=Priority,
        default=Priority.STANDARD,
        db_default=Priority.STANDARD,
        help_text=_("Of requests through the API that ask for none."),
    )
    highest_priority = models.CharField(
        _("highest priority"),
        max_length=16,
        choices=Priority,
        default=Priority.INTERACTIVE,
        db_default=Priority.INTERACTIVE,
        help_text=_("That its people and keys may use. The chat is interactive if it may be."),
    )
    requires_mfa = models.BooleanField(
        _("second factor required"),
        default=False,
        db_default=False,
        help_text=_("Its people set up a second factor before they do anything else."),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        ordering = ("slug",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(is_active=False) | models.Q(suspension_reason=""),
                name="tenant_suspension_reason_while_suspended",
            ),
            models.CheckConstraint(
                condition=models.Q(weight__gte=LEAST_WEIGHT, weight__lte=MOST_WEIGHT),
                name="tenant_weight_in_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    default_priority__in=Priority.values, highest_priority__in=Priority.values
                ),
                name="tenant_priorities_known",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def read_ahead_tokens(self) -> int | None:
        """What holds of both; None where neither says anything."""
        return read_ahead(self.high_water_tokens, self.own_high_water_tokens)


def read_ahead(granted: int | None, own: int | None) -> int | None:
    """The lesser of what an operator granted and what a tenant set for itself."""
    return min((each for each in (granted, own) if each is not None), default=None)
