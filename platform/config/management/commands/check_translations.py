"""`manage.py check_translations`: fails while a text is not translated; `--write` compiles."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Check that every marked text is translated and compiled, for every language but English."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--write", action="store_true", help="write the compiled catalogues first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from config import translations  # needs what only `make check` installs

        languages = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
        found = []
        for language in languages:
            if options["write"]:
                self.stdout.write(f"wrote {translations.write_compiled(language)}")
            found += translations.problems(language, root=settings.BASE_DIR)
        if found:
            raise CommandError("\n".join(found))
        self.stdout.write(f"Translations are complete: {', '.join(languages)}.")
