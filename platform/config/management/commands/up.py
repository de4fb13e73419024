"""`manage.py up`: the whole platform on this machine, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.supervisor.instance import AlreadyRunning, Unusable
from config.supervisor.launch import CannotLaunch, Launch
from config.supervisor.progress import Steps


class Command(BaseCommand):
    help = "Start everything on this machine and keep it running, until Ctrl-C."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        # What is done here is told on standard output; the log would tell it twice.
        logging.getLogger().setLevel(logging.WARNING)
        try:
            asyncio.run(Launch(Steps(sys.stdout)).run())
        except (AlreadyRunning, Unusable, CannotLaunch) as why:
            raise CommandError(str(why)) from why
