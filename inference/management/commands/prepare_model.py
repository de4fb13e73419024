"""`manage.py prepare_model`: make the bundled model ready in the model store, once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from inference.weights.bundled import CannotPrepare, prepare


class Command(BaseCommand):
    help = "Convert the bundled model into the model store. Does nothing if it is there already."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            folder = prepare(settings.MODEL_STORE, report=self._report)
        except CannotPrepare as why:
            raise CommandError(str(why)) from why
        self._report(f"ready in {folder}")

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
