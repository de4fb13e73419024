"""An engine host within the measuring process, on a Valkey and a database that are thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

AnswerAll = Callable[[list[Any]], Awaitable[float]]


@contextlib.contextmanager
def own_ground() -> Iterator[None]:
    """Django with its state in a folder of its own; child processes find the source as well."""
    folder = Path(tempfile.mkdtemp(prefix="nehir-bench-"))
    roots = (str(ROOT / "platform"), str(ROOT))
    sys.path[:0] = roots
    os.environ |= {
        "NEHIR_VAR": str(folder),
        "NEHIR_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONPATH": os.pathsep.join(roots),
    }
    import django

    django.setup()
    from django.core.management import call_command

    from config.supervisor import services

    store = subprocess.Popen(services.valkey().command, stdout=subprocess.DEVNULL)
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        store.terminate()
        store.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def serving(engine: Any) -> AsyncIterator[AnswerAll]:
    """An engine host over an engine that is loaded; how to have it answer requests, all at once,
    until they are settled, and how many seconds that took.
    """
    from inference import queue
    from inference.messages import QueuedRequest
    from inference.services import settlement
    from kernel.redis import client

    loop, settled = asyncio.get_running_loop(), asyncio.Semaphore(0)
    settlement.on_settled(lambda *_: loop.call_soon_threadsafe(settled.release))

    async def answer_all(requests: list[Any]) -> float:
        await recorded([each.generation_id for each in requests])
        began = time.perf_counter()
        for each in requests:
            asked = QueuedRequest("ten_a", release_id, each, time.time(), high_water_tokens=100_000)
            await queue.enqueue(client(), asked)
        for _ in requests:
            await settled.acquire()
        return time.perf_counter() - began

    async with hosting(engine) as release_id:
        yield answer_all


@contextlib.asynccontextmanager
async def hosting(*engines: Any) -> AsyncIterator[str]:
    """An engine host over each of these engines, which are loaded; the id of their release."""
    from inference.host.engine_host import EngineHost
    from kernel.clock import SystemClock
    from kernel.database import database
    from kernel.redis import client

    release_id = await database(_release)
    running = []
    for number, engine in enumerate(engines, start=1):
        host = EngineHost(
            _Loaded(engine),
            client(),
            SystemClock(),
            replica=f"benchmark-{number}",
            release_id=release_id,
            release_name="benchmark",
        )
        running.append(asyncio.create_task(host.run()))
    try:
        yield release_id
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def recorded(generation_ids: list[str]) -> None:
    """Open their records: that is admission's to do, not the host's."""
    from kernel.database import database

    await database(_open, generation_ids)


class _Loaded:
    """An engine that is started and stopped elsewhere."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


def _release() -> str:
    from inference.models import EngineKind, Release, Route
    from tenants.models import Tenant

    Tenant.objects.create(id="ten_a", slug="ten-a", name="Benchmark")
    release = Release.objects.create(
        name="benchmark", engine=EngineKind.VLLM, model_path="benchmark", context_tokens=8192
    )
    Route.objects.create(name="benchmark", release=release)
    return release.id


def _open(generation_ids: list[str]) -> None:
    from django.utils import timezone

    from inference.models import Generation, Route
    from tenants import scope

    route = Route.objects.get()
    with scope.tenant("ten_a"):
        Generation.objects.bulk_create(
            Generation(
                id=generation_id,
                tenant_id="ten_a",
                principal="service_account:sva_a",
                route=route,
                release_id=route.release_id,
                prompt_tokens=1,
                created_at=timezone.now(),
            )
            for generation_id in generation_ids
        )
