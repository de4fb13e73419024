from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Route(models.Model):
    """A public model name and the release that answers to it."""

    name = models.CharField(_("public model name"), max_length=100, unique=True)
    release = models.ForeignKey(
        "inference.Release", on_delete=models.PROTECT, related_name="+", verbose_name=_("release")
    )
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
