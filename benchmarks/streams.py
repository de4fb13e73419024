"""Streams under load, with slow readers, and through broken connections: the figures that Nehir is
held to, on the fake engine, beside a plain server that answers at the same pace in the same run.

    .venv/bin/python benchmarks/streams.py [load silent reconnect leave idle]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.raw_client import Background, Job, Measured, measure
from benchmarks.report import machine, percentile
from benchmarks.servers import Server, plain_server, platform

TTFT_MS, ITL_MS, TOKENS = 20, 20, 50
READERS, NEVER_READING, RUNS = 32, 1000, 5
IDLE = 2000
MIB = 2**20
# What a figure must not be limited by; a host takes 64 at once unless told otherwise.
ROOMY = {
    "NEHIR_ENGINE_MAX_RUNNING": "4096",
    "NEHIR_QUEUE_LIMIT": "10000",
    "NEHIR_QUEUE_LIMIT_PER_TENANT": "10000",
    "NEHIR_SSE_LIMIT": "10000",
    "NEHIR_SSE_LIMIT_PER_TENANT": "10000",
    "NEHIR_SSE_LIMIT_PER_CLIENT": "10000",
}
PACE = {"NEHIR_FAKE_TTFT_MS": str(TTFT_MS), "NEHIR_FAKE_ITL_MS": str(ITL_MS)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("figures", nargs="*", default=list(FIGURES))
    chosen = parser.parse_args().figures
    print(machine(), flush=True)
    for name in chosen:
        FIGURES[name]()


def job(server: Server, what: str, count: int, *, tokens: int = TOKENS, rounds: int = 1) -> Job:
    return Job(what, server.url, server.key, server.model, count, tokens, rounds)


def say(name: str, figure: str, target: str) -> None:
    print(f"{name:58} {figure:>26}   {target}", flush=True)


# -- Speed


def load() -> None:
    with plain_server(ttft_ms=TTFT_MS, itl_ms=ITL_MS) as plain, platform(**ROOMY, **PACE) as nehir:
        measure(job(nehir, "streams", 8))
        alone = [measure(job(side, "streams", 1, rounds=12)) for side in (nehir, plain)]
        added = statistics.median(alone[0].first_ms) - statistics.median(alone[1].first_ms)
        say("first token added, one stream, p50", f"{added:.1f} ms", "<= 5 ms")
        for streams, gaps in ((32, "<= 1.2"), (128, "<= 2.5")):
            ours, theirs = (
                measure(job(side, "streams", streams, rounds=4)) for side in (nehir, plain)
            )
            ratio = _tokens_per_s(ours) / _tokens_per_s(theirs)
            rates = f"{_tokens_per_s(ours):.0f} of {_tokens_per_s(theirs):.0f}: {ratio:.3f}"
            say(f"tokens/s, {streams} streams", rates, ">= 0.9")
            say(f"gap between pieces p95, {streams} streams", _gaps(ours, theirs), gaps)


def _tokens_per_s(measured: Measured) -> float:
    return measured.tokens / measured.wall_s


def _gaps(ours: Measured, theirs: Measured) -> str:
    mine, other = (percentile(side.gaps_ms, 95) for side in (ours, theirs))
    return f"{mine:.1f} / {other:.1f} ms: {mine / other:.2f}"


# -- Clients that never read


def silent() -> None:
    settings = ROOMY | PACE | {"NEHIR_DETACH_GRACE_S": "10"}
    with platform(**settings) as nehir:
        readers = job(nehir, "streams", READERS, rounds=3)
        measure(readers)
        before = _resident(nehir)
        without = [measure(readers) for _ in range(RUNS)]
        asked = job(nehir, "silent", NEVER_READING, tokens=256)
        with Background(replace(asked, high_water_tokens=64)):
            time.sleep(15)  # until they are held and then suspended
            after = _resident(nehir)
            beside = [measure(readers) for _ in range(RUNS)]
            later = _resident(nehir)
        gaps = [
            statistics.median(percentile(run.gaps_ms, 95) for run in runs)
            for runs in (beside, without)
        ]
        figure = f"{gaps[0]:.1f} / {gaps[1]:.1f} ms: {gaps[0] / gaps[1]:.2f}"
        say(f"gap p95 of {READERS} beside {NEVER_READING} that never read", figure, "<= 1.1")
        for name in before:
            steps = " -> ".join(f"{each[name] / MIB:.0f}" for each in (before, after, later))
            say(f"resident memory of {name}: before, marks reached, later", f"{steps} MiB", "flat")


def _resident(server: Server) -> dict[str, int]:
    """Bytes, by what the process is."""
    found: dict[str, int] = {}
    for child in psutil.Process(server.pid).children(recursive=True):
        command = " ".join(child.cmdline())
        kinds = (("web", "web.backpressure"), ("engine host", " engine "), ("Valkey", "valkey"))
        for name, mark in kinds:
            if mark in command:
                found[name] = found.get(name, 0) + child.memory_info().rss
                break
    return found


# -- Connections that break


def reconnect() -> None:
    with platform(**ROOMY, **PACE) as nehir:
        measured = measure(job(nehir, "reconnect", 25, tokens=256))
        p95 = percentile(measured.first_ms, 95)
        say("reconnect to first replayed token, p95", f"{p95:.1f} ms", "<= 20 ms")


def leave() -> None:
    """Thirty clients break off in the same moment, three times, while the platform is probed."""
    with platform(**ROOMY, **PACE) as nehir:
        took_ms: list[float] = []
        failed: list[str] = []
        stop = threading.Event()
        probing = threading.Thread(target=_probe, args=(nehir, stop, took_ms, failed))
        probing.start()
        for _ in range(3):
            with Background(job(nehir, "idle", 30, tokens=256)):
                time.sleep(1)
            time.sleep(1)
        stop.set()
        probing.join()
        figure = f"{len(failed)} of {len(took_ms)}, slowest {max(took_ms):.0f} ms"
        say("/readyz failed while 30 leave at once", figure, "never")
        for text in failed:
            print(f"    {text}")


def _probe(server: Server, stop: threading.Event, took_ms: list[float], failed: list[str]) -> None:
    while not stop.is_set():
        began = time.perf_counter()
        try:
            urllib.request.urlopen(f"{server.url}/readyz", timeout=5).close()  # noqa: S310 - our own server
        except (urllib.error.URLError, OSError) as error:
            failed.append(_said(error))
        took_ms.append((time.perf_counter() - began) * 1000)
        time.sleep(0.02)


def _said(error: Exception) -> str:
    body = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
    return f"{error} {body}"


# -- Many that wait


def idle() -> None:
    slow = {"NEHIR_FAKE_TTFT_MS": "20", "NEHIR_FAKE_ITL_MS": "60000"}
    with platform(**ROOMY, **slow) as nehir:
        with Background(job(nehir, "idle", 20)):
            time.sleep(1)
        before = _resident(nehir)["web"]
        with Background(job(nehir, "idle", IDLE)):
            time.sleep(5)
            web = _web(nehir)
            web.cpu_percent()
            kib = (_resident(nehir)["web"] - before) / 1024 / IDLE
            time.sleep(5)
            say(f"{IDLE} idle streams, memory each", f"{kib:.0f} KiB", "")
            say(f"{IDLE} idle streams, web process", f"{web.cpu_percent():.0f} % of a core", "")


def _web(server: Server) -> psutil.Process:
    children = psutil.Process(server.pid).children(recursive=True)
    return next(child for child in children if "web.backpressure" in child.cmdline())


FIGURES = {
    "load": load,
    "silent": silent,
    "reconnect": reconnect,
    "leave": leave,
    "idle": idle,
}


if __name__ == "__main__":
    main()
