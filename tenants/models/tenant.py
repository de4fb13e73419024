from __future__ import annotations

from functools import partial

from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id


class Tenant(models.Model):
    """An organisation or department that is served, billed and kept apart from the others."""

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "ten"), editable=False
    )
    slug = models.SlugField(_("slug"), unique=True, max_length=50)
    name = models.CharField(_("name"), max_length=200)
    is_active = models.BooleanField(
        _("active"),
        default=True,
        help_text=_("An inactive tenant keeps its data; its people and keys are refused."),
    )
    high_water_tokens = models.PositiveIntegerField(
        _("read-ahead (tokens)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("How far an answer may be ahead of its reader; empty: the platform's default."),
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.name
