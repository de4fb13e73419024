from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Priority(models.TextChoices):
    """`tenants.priority.PriorityClass` for people, the highest first."""

    INTERACTIVE = "interactive", _("interactive")
    STANDARD = "standard", _("standard")
    BATCH = "batch", _("batch")
