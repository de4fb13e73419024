"""What it costs a request to be authenticated: by a key that is seen for the first time, by one in
use, and by one in use that is presented after a pause. No servers; SQLite in a temporary folder.

    .venv/bin/python benchmarks/authentication.py
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEYS = 300
LONE = 20
PAUSE_S = 1.1


def prepare(folder: str) -> list[str]:
    """Headers with a good key each."""
    os.environ |= {"NEHIR_VAR": folder, "NEHIR_LOG_LEVEL": "WARNING"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    sys.path[:0] = [str(ROOT / "platform"), str(ROOT)]
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from tenants import scope
    from tenants.models import ServiceAccount, Tenant
    from tenants.services.keys import issue_key

    tenant = Tenant.objects.create(slug="acme", name="Acme")
    with scope.tenant(tenant.pk):
        account = ServiceAccount.objects.create(tenant=tenant, name="app")
        issued = [
            issue_key(service_account=account, name="k", actor=None, now=datetime.now(UTC))[1]
            for _ in range(KEYS)
        ]
    return [f"Bearer {text}" for text in issued]


async def timed(ask: Callable[[str], Awaitable[object]], headers: list[str], pause_s: float) -> str:
    took_us = []
    for header in headers:
        if pause_s:
            await asyncio.sleep(pause_s)
        begun = time.perf_counter()
        await ask(header)
        took_us.append((time.perf_counter() - begun) * 1e6)
    p95 = statistics.quantiles(took_us, n=20)[-1]
    return f"p50 {statistics.median(took_us):7.0f} us   p95 {p95:7.0f} us"


async def measure(headers: list[str]) -> None:
    from kernel.clock import SystemClock
    from tenants.services.known_keys import KnownKeys

    keys = KnownKeys(SystemClock())

    async def ask(header: str) -> None:
        await keys.authenticate(header, where=lambda: None)

    await ask(headers[0])  # opens the database
    print("seen for the first time     ", await timed(ask, headers[1:], 0))
    await ask(headers[0])
    print("in use                      ", await timed(ask, headers[:1] * 2000, 0))
    print(f"in use, after {PAUSE_S} s of pause", await timed(ask, headers[:1] * LONE, PAUSE_S))
    begun = time.process_time()
    for _ in range(20):
        await keys.round()
    cost_ms = (time.process_time() - begun) / 20 * 1e3
    print(f"CPU of a round that keeps {KEYS} keys fresh: {cost_ms:.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(prepare(folder)))
