from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Maintenance(models.TextChoices):
    CLEAN_UP = "clean_up", _("Clean-up")


class MaintenanceRun(models.Model):
    """One run of the platform's housekeeping, for operators to see that it happens.

    counts: how many of each kind it dealt with, as far as it came
    finished_at: null while it runs, and for ever if its process was killed
    error: what it ended with, if not well
    """

    name = models.CharField(_("name"), max_length=64, choices=Maintenance.choices)
    started_at = models.DateTimeField(_("started"))
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    counts = models.JSONField(_("counts"), default=dict, blank=True)
    error = models.CharField(_("error"), max_length=500, blank=True)

    class Meta:
        verbose_name = _("maintenance run")
        verbose_name_plural = _("maintenance runs")
        indexes = [models.Index(fields=["name", "-started_at"], name="maintenance_run_by_name")]

    def __str__(self) -> str:
        return f"{self.get_name_display()} {self.started_at:%Y-%m-%d %H:%M}"
