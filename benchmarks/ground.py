"""What a simulation on the production scripts needs: Django's settings and a Valkey of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def valkey(**settings: str) -> Iterator[None]:
    """A real Valkey on a unix socket, which `kernel.redis.client()` then leads to. Called before
    anything of the platform is imported.
    """
    sys.path[:0] = [str(ROOT / "platform"), str(ROOT)]
    folder = Path(tempfile.mkdtemp(prefix="nehir-sim-"))
    os.environ |= {"NEHIR_VAR": str(folder), "DJANGO_SETTINGS_MODULE": "config.settings"}
    os.environ |= settings
    os.environ.pop("REDIS_URL", None)

    import django

    django.setup()
    from django.conf import settings as chosen

    from tests.ground.valkey import Valkey

    server = Valkey(Path(chosen.EMBEDDED_REDIS_SOCKET)).start()
    try:
        yield
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
