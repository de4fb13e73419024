"""What has to be there before processes start: folders, schema, demo, and which releases to run."""

from __future__ import annotations

import os
import stat
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection, connections
from django.db.migrations.loader import MigrationLoader

from config.demo import Demo, seed
from config.supervisor.instance import Unusable
from config.supervisor.services import Service, engines_of
from inference.models import Route

OURS = frozenset({"tenants", "inference", "streaming", "console", "web"})


def make_socket_folder(folder: Path, *, var: Path) -> None:
    """The folder of the unix sockets, which nobody but us may enter. Raises Unusable if it is
    somebody else's.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise Unusable(f"{folder}, where the sockets go, is not a folder of this user: remove it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        if not folder.is_relative_to(var):
            raise Unusable(f"{folder}, where the sockets go, is open to other users: remove it.")
        folder.chmod(0o700)


def migrate() -> None:
    """Bring the database to this code's schema. Raises Unusable if it can't be reached or is a
    newer Nehir's.
    """
    try:
        _require_known_schema()
        call_command("migrate", interactive=False, verbosity=0)
        # WhiteNoise warns of a folder that isn't there.
        Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
        if settings.PRODUCTION:
            call_command("collectstatic", interactive=False, verbosity=0)
    except OperationalError as fault:
        raise Unusable(f"The database can't be used: {str(fault).strip()}") from fault
    finally:
        connections.close_all()


def _require_known_schema() -> None:
    loader = MigrationLoader(connection)
    unknown = sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in OURS and (app, name) not in loader.disk_migrations
    )
    if unknown:
        raise Unusable(
            f"The database was written by a newer Nehir ({', '.join(unknown)}): "
            "update this checkout, or point NEHIR_VAR or DATABASE_URL elsewhere."
        )


def seed_demo(now: datetime) -> Demo:
    try:
        return seed(now=now, engine=settings.ENGINE)
    finally:
        connections.close_all()


def engines() -> list[Service]:
    """An engine host for every release that an active route names and this install's engine can
    run.
    """
    try:
        routes = Route.objects.filter(is_active=True, release__engine=settings.ENGINE)
        return engines_of(
            routes.order_by("release__name").values_list("release__name", flat=True).distinct()
        )
    finally:
        connections.close_all()
