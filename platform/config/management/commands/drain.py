"""`manage.py drain web|engine`: let processes end what they do, and leave them stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.supervisor.asking import NotDone, ask
from config.supervisor.messages import Drain


class Command(BaseCommand):
    help = "Take processes out of service in order; `restart` brings them back."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", help="web, engine, or one process by its name")

    def handle(self, *args: Any, **options: Any) -> None:
        folder, var = Path(settings.SOCKET_FOLDER), Path(settings.VAR)
        try:
            ask(Drain(options["what"]), var=var, folder=folder, say=self._say)
        except NotDone as why:
            raise CommandError(str(why)) from why

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
