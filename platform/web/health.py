"""Is this process alive, and is it ready to serve? Asked by supervisors and load balancers, so
without a session or tenant, and without ever holding the event loop.

`/healthz` says that the process answers: no input or output. `/readyz` runs every registered check
at the same time, each with a limit of its own, and says 200 only if all are well:

    {"ready": false, "checks": {"redis": {"ok": true}, "inference": {"ok": false, "reason": "…"}}}

A check that hangs is not started again while it hangs: probes that pile up wait for the one check
in flight, so that nobody exhausts the database through this page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from kernel import redis
from kernel.database import database
from kernel.loops import one_per_loop

log = logging.getLogger(__name__)

CHECK_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Health:
    """reason: a word or two why not, for operators; nothing that a stranger must not read."""

    ok: bool
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        return {"ok": True} if self.ok else {"ok": False, "reason": self.reason}


Check = Callable[[], Awaitable[Health]]

_checks: dict[str, Check] = {}


@one_per_loop
def _in_flight() -> dict[str, asyncio.Task[Health]]:
    return {}


def register(name: str, check: Check) -> None:
    """Let readiness depend on `check`. A name registered again takes the new check."""
    _checks[name] = check


@never_cache
@require_safe
async def healthz(request: HttpRequest) -> JsonResponse:
    """200 as long as the process answers."""
    return JsonResponse({"alive": True})


@never_cache
@require_safe
async def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every check is well, else 503; both with what each said."""
    names = list(_checks)
    found = dict(zip(names, await asyncio.gather(*map(_ask, names)), strict=True))
    ready = all(health.ok for health in found.values())
    body = {"ready": ready, "checks": {name: health.as_json() for name, health in found.items()}}
    response = JsonResponse(body, status=200 if ready else 503)
    # Not being ready is an answer, not a fault: Django would log an error for every probe.
    vars(response)["_has_been_logged"] = True
    return response


async def _ask(name: str) -> Health:
    running = _in_flight()
    if name not in running or running[name].done():
        running[name] = asyncio.create_task(_run(name, _checks[name]))
    done, _ = await asyncio.wait({running[name]}, timeout=CHECK_TIMEOUT_S)
    return running[name].result() if done else Health(False, f"no answer in {CHECK_TIMEOUT_S:g} s")


async def _run(name: str, check: Check) -> Health:
    try:
        return await check()
    except Exception as error:  # whatever a check dies of, the page has to say so
        log.warning("The readiness check %s failed", name, exc_info=True)
        return Health(False, type(error).__name__)


async def _database() -> Health:
    await database(_select_one)
    return Health(True)


def _select_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


async def _redis() -> Health:
    try:
        await redis.client().ping()
    except redis.OUTAGE:
        return Health(False, "unreachable")
    return Health(True)


register("database", _database)
register("redis", _redis)
