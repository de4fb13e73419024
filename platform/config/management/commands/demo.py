"""`manage.py demo [--json]`: the demo's address, logins and API keys."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from config.demo import NotADemo, seed
from kernel.clock import SystemClock


class Command(BaseCommand):
    help = "Show the demo's address, logins and API keys, making what is missing of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="as JSON, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        # What is done here is told on standard output; the log would tell it twice.
        logging.getLogger().setLevel(logging.WARNING)
        try:
            demo = seed(now=SystemClock().now())
        except NotADemo as why:
            raise CommandError(str(why)) from why
        except DatabaseError as fault:
            raise CommandError(
                f"The database is not ready ({fault}): run `make run` first."
            ) from fault
        for note in demo.notes:
            self.stderr.write(note)
        self.stdout.write(
            json.dumps(demo.as_json(), indent=2)
            if options["json"]
            else f"{demo.url}\n{demo.table()}"
        )
