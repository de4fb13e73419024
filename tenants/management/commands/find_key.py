"""`manage.py find_key`: whose API key was found, and what it may do."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from kernel.errors import BadRequest
from tenants import scope
from tenants.services.key_finding import Found, find
from tenants.services.keys import revoke_key


class Command(BaseCommand):
    help = (
        "Say whose an API key is that was found somewhere: by the key itself, its beginning or its "
        "id. Nothing secret of it is ever printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "key",
            nargs="?",
            help="its beginning, as nhr_dev_0123456789. Without it the key is asked for, or read "
            "from standard input, which keeps it out of the shell's history",
        )
        parser.add_argument("--revoke", action="store_true", help="revoke it, if it is one key")

    @sensitive_variables()
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = find(options["key"] or _asked())
        except BadRequest as error:
            raise CommandError(error.message) from None
        if not found:
            raise CommandError("No key begins like that.")
        for each in found:
            self.stdout.write(_described(each))
        if options["revoke"]:
            self._revoke(found)

    def _revoke(self, found: list[Found]) -> None:
        if len(found) > 1:
            raise CommandError("More than one key begins like that; none was revoked.")
        key = found[0].key
        with scope.tenant(key.tenant_id):
            revoke_key(key=key, actor=None, now=timezone.now())
        self.stdout.write("It is revoked.")


def _asked() -> str:
    return getpass.getpass("Key: ") if sys.stdin.isatty() else sys.stdin.readline()


def _described(found: Found) -> str:
    key = found.key
    secret = {
        None: "only the beginning was given",
        True: "what was given is the key itself: revoke it",
        False: "what was given is not its secret",
    }[found.is_whole]
    facts = {
        "name": key.name,
        "tenant": f"{key.tenant.slug} ({key.tenant_id})",
        "service account": f"{key.service_account.name} ({key.service_account_id})",
        "status": key.status(now=timezone.now()),
        "may be used for": ", ".join(key.scopes),
        "models": ", ".join(key.model_names) or "all",
        "networks": ", ".join(key.networks) or "anywhere",
        "created": f"{key.created_at:%Y-%m-%d %H:%M} by {key.created_by or 'unknown'}",
        "last used": f"{key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never",
        "expires": f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "never",
        "secret": secret,
    }
    lines = [f"  {name:<16} {value}" for name, value in facts.items()]
    return "\n".join([f"{key.prefix}_…", *lines])
