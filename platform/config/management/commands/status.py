"""`manage.py status [--json]`: every process and replica of the running platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.supervisor.asking import NotDone, ask
from config.supervisor.messages import Status
from config.supervisor.reporting import as_text
from kernel.clock import SystemClock


class Command(BaseCommand):
    help = "Show what runs, since when, and what the engines have to do."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="as JSON, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        folder, var = Path(settings.SOCKET_FOLDER), Path(settings.VAR)
        try:
            report = ask(Status(), var=var, folder=folder, say=self.stdout.write)
        except NotDone as why:
            raise CommandError(str(why)) from why
        if report is None:
            raise CommandError("The supervisor is another version of Nehir.")
        if options["json"]:
            self.stdout.write(msgspec.json.encode(report).decode())
        else:
            self.stdout.write(as_text(report, now=SystemClock().now()))
