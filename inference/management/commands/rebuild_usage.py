"""`manage.py rebuild_usage`: make the hours of usage anew from the generations."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from inference.services import usage


class Command(BaseCommand):
    help = "Make the hours of usage anew from the settled generations."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{usage.rebuild():6d} hours of usage made anew")
