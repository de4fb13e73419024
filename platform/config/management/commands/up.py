"""`manage.py up`: the whole platform on this machine, until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.supervisor.instance import AlreadyRunning, Unusable
from config.supervisor.launch import CannotLaunch, Launch
from config.supervisor.progress import Steps


class Command(BaseCommand):
    help = "Start everything on this machine under one supervisor and keep it running. Ctrl-C stops it."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asyncio.run(Launch(Steps(self.stdout._out)).run())  # noqa: SLF001 - wants isatty
        except (AlreadyRunning, Unusable, CannotLaunch) as why:
            raise CommandError(str(why)) from why
