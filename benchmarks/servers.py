"""The servers that are compared, each started for the length of a measurement."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = "smollm2-135m-instruct"
CONTEXT_TOKENS = 8192
START_S = 600
STOP_S = 60


@dataclass(frozen=True)
class Server:
    """Where one side of a comparison answers, and under which names. pid: of its first process;
    other_key: of another tenant, where there are any.
    """

    url: str
    key: str
    model: str
    pid: int
    other_key: str = ""


@contextlib.contextmanager
def platform(engine: str = "fake", **settings: str) -> Iterator[Server]:
    """Nehir as `make run` starts it, its state in a folder that is thrown away."""
    folder = Path(tempfile.mkdtemp(prefix="nehir-bench-"))
    port = _free_port()
    own = {"NEHIR_VAR": str(folder), "NEHIR_PORT": str(port), "NEHIR_MODELS": str(models())}
    env = {**os.environ, **own, "ENGINE": engine, "NEHIR_LOG_LEVEL": "WARNING", **settings}
    url = f"http://127.0.0.1:{port}"
    manage = [sys.executable, str(ROOT / "manage.py")]
    try:
        up = _running([*manage, "up"], env=env, log=folder / "up.log", ready=f"{url}/readyz")
        with up as pid:
            shown = subprocess.run(
                [*manage, "demo", "--json"], env=env, check=True, stdout=subprocess.PIPE
            )
            key, other = (tenant["api_key"] for tenant in json.loads(shown.stdout)["tenants"])
            yield Server(url, key, "fake" if engine == "fake" else MODEL, pid, other)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def bare_vllm() -> Iterator[Server]:
    """vLLM's own OpenAI server on the same model, with the arguments that the platform gives it."""
    prepare = [sys.executable, str(ROOT / "manage.py"), "prepare_model"]
    subprocess.run(prepare, env=os.environ | {"NEHIR_MODELS": str(models())}, check=True)
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(models() / MODEL), "--served-model-name", MODEL),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", str(CONTEXT_TOKENS), "--dtype", "bfloat16", "--enforce-eager"),
        *("--disable-log-stats", "--disable-uvicorn-access-log"),
    ]
    own = {
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with tempfile.TemporaryDirectory(prefix="nehir-bench-") as folder:
        log = Path(folder) / "vllm.log"
        with _running(command, env=os.environ | own, log=log, ready=f"{url}/health") as pid:
            yield Server(url, "none", MODEL, pid)


@contextlib.contextmanager
def plain_server(*, ttft_ms: float, itl_ms: float) -> Iterator[Server]:
    """A server that does nothing but answer at the fake engine's pace."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    script = str(Path(__file__).with_name("plain_server.py"))
    command = [sys.executable, script, str(port), str(ttft_ms), str(itl_ms)]
    with tempfile.TemporaryDirectory(prefix="nehir-bench-") as folder:
        log = Path(folder) / "plain.log"
        with _running(command, env=dict(os.environ), log=log, ready=f"{url}/health") as pid:
            yield Server(url, "none", "plain", pid)


def models() -> Path:
    """The store of prepared models: the one that `make run` uses, unless NEHIR_MODELS says."""
    return Path(os.environ.get("NEHIR_MODELS") or ROOT / "var" / "models")


@contextlib.contextmanager
def _running(command: list[str], *, env: dict[str, str], log: Path, ready: str) -> Iterator[int]:
    """A process, once it answers at `ready`; its id."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, ready, log)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], ready: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not _answers(ready):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{ready} does not answer.\n{log.read_text()[-4000:]}")
        time.sleep(0.25)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as reply:  # noqa: S310 - our own server
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
