"""`manage.py engine`: one replica of a release, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference.engine.factory import fake_engine, vllm_engine
from inference.engine.protocol import Engine, EngineDead
from inference.host.engine_host import EngineHost
from inference.models import EngineKind, Release
from kernel import garbage
from kernel.clock import SystemClock
from kernel.redis import client

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Run an engine host: one replica of a release."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--release", required=True, help="name of the release to serve")
        parser.add_argument(
            "--replica", default="engine", help="stable name of this replica's slot"
        )
        parser.add_argument(
            "--ready-fd", type=int, help="descriptor to write a line to, and to close, once ready"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        release = Release.objects.filter(name=options["release"]).first()
        if release is None:
            known = ", ".join(Release.objects.values_list("name", flat=True)) or "none"
            raise CommandError(f"There is no release {options['release']!r}. Known: {known}.")
        try:
            asyncio.run(_serve(release, options["replica"], options["ready_fd"]))
        except EngineDead as error:
            log.error("The engine failed: %s", error)
            sys.exit(1)


async def _serve(release: Release, replica: str, ready_fd: int | None) -> None:
    host = EngineHost(
        _engine(release),
        client(),
        SystemClock(),
        replica=replica,
        release_id=release.id,
        release_name=release.name,
        on_ready=partial(_ready, ready_fd),
    )
    serving = asyncio.create_task(host.run())
    _drain_on_signals(host, serving)
    try:
        await serving
    except asyncio.CancelledError:
        log.info("Replica %s has stopped.", replica)


def _ready(descriptor: int | None) -> None:
    garbage.freeze_what_is_loaded()
    if descriptor is not None:
        os.write(descriptor, b"\n")
        os.close(descriptor)


def _drain_on_signals(host: EngineHost, serving: asyncio.Task[None]) -> None:
    """The first signal drains, a second breaks off. While the engine loads, there is nothing to
    drain.
    """
    told = False

    def stop() -> None:
        nonlocal told
        if told or not host.is_serving:
            # Told more often, as by a terminal and a supervisor, it still stops in order.
            _ = serving.cancelling() or serving.cancel()
        told = True
        host.drain()

    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop)


def _engine(release: Release) -> Engine:
    slots, floor = settings.ENGINE_MAX_RUNNING, settings.CLASS_FLOOR
    if release.engine == EngineKind.FAKE:
        return fake_engine(
            ttft_ms=settings.FAKE_TTFT_MS,
            itl_ms=settings.FAKE_ITL_MS,
            slots=slots,
            class_floor=floor,
        )
    model = settings.MODEL_STORE / release.model_path
    if not (model / "config.json").is_file():
        raise CommandError(f"There is no model in {model}. Run `manage.py prepare_model` first.")
    return vllm_engine(
        model,
        context_tokens=release.context_tokens,
        arguments=release.engine_arguments,
        kv_cache_gib=settings.ENGINE_KV_CACHE_GIB,
        slots=slots,
        class_floor=floor,
    )
