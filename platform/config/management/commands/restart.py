"""`manage.py restart web|engine|…`: new processes take the place of those that run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.supervisor.asking import NotDone, ask
from config.supervisor.messages import Restart


class Command(BaseCommand):
    help = "Replace running processes: the new one serves before the old one is told to leave."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", help="web, engine, worker, beat, or one process by its name")
        parser.add_argument(
            "--stop-first",
            action="store_true",
            help="the old one leaves before: where two don't fit; requests wait meanwhile",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        request = Restart(options["what"], stop_first=options["stop_first"])
        folder, var = Path(settings.SOCKET_FOLDER), Path(settings.VAR)
        try:
            ask(request, var=var, folder=folder, say=self._say)
        except NotDone as why:
            raise CommandError(str(why)) from why

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
