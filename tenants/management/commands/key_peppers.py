"""`manage.py key_peppers`: which peppers are still needed."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db.models import Count
from django.utils import timezone

from tenants import scope
from tenants.models import ApiKey


class Command(BaseCommand):
    help = (
        "How many usable API keys are kept under each version of the pepper. A key moves to the "
        "current one when it is used."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with scope.whole_platform():
            usable = ApiKey.objects.filter(revoked_at=None).exclude(expires_at__lte=timezone.now())
            rows = usable.order_by().values_list("pepper_version").annotate(Count("pk"))
            counts = dict(rows)
        current = settings.KEY_PEPPER_VERSION
        for version in sorted(counts.keys() | settings.KEY_PEPPERS.keys()):
            state = "current" if version == current else "known"
            if version not in settings.KEY_PEPPERS:
                state = "not in the settings: these keys are refused"
            self.stdout.write(f"{version}: {counts.get(version, 0)} keys ({state})")
