"""`manage.py verify_audit [--expect SEQ:HASH]`: whether the audit log is what was written."""

from __future__ import annotations

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants.audit_chain import End
from tenants.services.audit_check import check

NOTE = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


class Command(BaseCommand):
    help = "Go through the audit log and tell whatever was changed, dropped or moved."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--expect",
            metavar="SEQ:HASH",
            help="the log's end as it was noted once: nothing before it may have been written anew",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        finding = check(expect=_end(options["expect"]))
        if finding.breaks:
            raise CommandError("\n".join(finding.breaks))
        self.stdout.write(f"{finding.end.seq} records, none changed, dropped or moved.")
        self.stdout.write(f"The log's end, to be noted elsewhere: {finding.end}")


def _end(note: str | None) -> End | None:
    if note is None:
        return None
    match = NOTE.fullmatch(note)
    if match is None:
        raise CommandError("--expect takes SEQ:HASH, as an earlier run told it.")
    return End(int(match[1]), match[2])
