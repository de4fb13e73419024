"""An install as `make run` starts it: `manage.py up` with its demo, state in its own folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import redis

from inference import messages, redis_keys, token_log
from inference.messages import Finished, ReplicaRecord, Tokens
from inference.token_log import LogEntry
from tests import environment
from tests.environment import ROOT
from tests.ground.ports import free_port
from tests.ground.processes import Child, wait_until

STOP_GRACE_S = 60
# Loading takes forty seconds on two idle cores, and tests share theirs.
LOAD_S = 400


class Install:
    def __init__(self, folder: Path, *, engine: str, **settings: str) -> None:
        """folder: empty, for state and logs, its path short enough for a socket.

        engine: `vllm` or `fake`; settings: further environment variables
        """
        self.folder = folder
        self.engine = engine
        own = {
            "NEHIR_VAR": str(folder),
            "NEHIR_PORT": str(free_port()),
            "NEHIR_MODELS": environment.MODELS,
            "ENGINE": engine,
        }
        self._env = environment.forget_install(dict(os.environ)) | own | settings
        self.url = f"http://127.0.0.1:{own['NEHIR_PORT']}"
        self.up: Child | None = None
        self.demo: dict[str, Any] = {}

    def start(self) -> Install:
        """Start it, and return when its web process answers; the engine may still be loading."""
        log = self.folder / "up.log"
        command = [sys.executable, str(ROOT / "manage.py"), "up"]
        self.up = Child("manage.py up", command, log=log, env=self._env, cwd=ROOT)
        wait_until(self._answers, what="the web process answers", within_s=120)
        self.demo = json.loads(self.manage("demo", "--json"))
        return self

    def stop(self) -> None:
        if self.up is not None:
            self.up.end(grace_s=STOP_GRACE_S)

    def _answers(self) -> bool:
        assert self.up is not None
        self.up.check_alive()
        return self.status("/healthz") == httpx.codes.OK

    def manage(self, *arguments: str) -> str:
        """What a management command prints."""
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(
            command, env=self._env, cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # -- Who may use it

    def tenant(self, slug: str) -> dict[str, Any]:
        """The demo's `admin` and `user` logins and `api_key` of a tenant."""
        return next(tenant for tenant in self.demo["tenants"] if tenant["slug"] == slug)

    def openai(self, slug: str = "acme") -> openai.OpenAI:
        """The official client, with a tenant's key."""
        key = self.tenant(slug)["api_key"]
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def session(self, login: dict[str, str]) -> str:
        """The session cookie's value of someone who has signed in on the login page."""
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            client.get("/login/").raise_for_status()
            form = {**login, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
            reply = client.post("/login/", data=form)
            assert reply.status_code == httpx.codes.FOUND, reply.text
            return client.cookies["sessionid"]

    # -- How it is

    def status(self, path: str) -> int | None:
        """The HTTP status of a page, None if nobody answers."""
        try:
            return httpx.get(self.url + path, timeout=10, trust_env=False).status_code
        except httpx.TransportError:
            return None

    def wait_until_ready(self) -> None:
        """Return when an engine host runs and is ready. One that was killed stays announced until
        its heartbeat is too old, so being announced alone is not enough.
        """
        wait_until(self._has_engine_host, what="an engine host runs")
        wait_until(
            lambda: self.status("/readyz") == httpx.codes.OK,
            what=f"the {self.engine} engine is ready",
            within_s=LOAD_S,
            poll_s=0.2,
        )

    def _has_engine_host(self) -> bool:
        try:
            self.engine_host()
        except LookupError:
            return False
        return True

    def replicas(self) -> list[ReplicaRecord]:
        with redis.Redis(unix_socket_path=str(self.folder / "run" / "valkey.sock")) as connection:
            names: Any = connection.smembers(redis_keys.REPLICAS)
            raw: list[Any] = [connection.get(redis_keys.replica(name.decode())) for name in names]
        return [messages.decode_replica(record) for record in raw if record]

    def running(self) -> int:
        """Requests inside the engines, by their own heartbeat."""
        return sum(replica.running + replica.waiting for replica in self.replicas())

    def wait_until_idle(self) -> None:
        wait_until(lambda: self.running() == 0, what="nothing runs in the engines")

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """What the database holds, read past the platform."""
        connection = sqlite3.connect(self.folder / "nehir.sqlite3", timeout=20)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query, values)]
        finally:
            connection.close()

    def execute(self, statement: str, *values: object) -> None:
        """Change what the database holds, past the platform."""
        connection = sqlite3.connect(self.folder / "nehir.sqlite3", timeout=20)
        try:
            with connection:
                connection.execute(statement, values)
        finally:
            connection.close()

    def settled(self, generation_id: str) -> dict[str, Any]:
        """A generation's record once it is settled."""
        query = "SELECT * FROM inference_generation WHERE id = ? AND state <> 'open'"
        return wait_until(
            lambda: self.rows(query, generation_id), what=f"{generation_id} is settled"
        )[0]

    def log_text(self, generation_id: str) -> str:
        """An answer as its token log has it."""
        entries = [logged.entry for logged in self._log(generation_id)]
        said = (entry for entry in entries if isinstance(entry, Tokens | Finished))
        return "".join(entry.text for entry in said)

    def _log(self, generation_id: str) -> list[LogEntry]:
        query = "SELECT tenant_id FROM inference_generation WHERE id = ?"
        (found,) = self.rows(query, generation_id)
        key = redis_keys.log(found["tenant_id"], generation_id)
        with redis.Redis(unix_socket_path=str(self.folder / "run" / "valkey.sock")) as connection:
            raw: Any = connection.xrange(key)
        return token_log.parse(raw)

    def log_tokens(self, generation_id: str) -> int:
        """How many tokens its log holds, one after the other."""
        return self._log(generation_id)[-1].position[0]

    def taken(self) -> set[bytes]:
        """The generations that some replica has taken and not settled."""
        with redis.Redis(unix_socket_path=str(self.folder / "run" / "valkey.sock")) as connection:
            keys: Any = connection.keys(redis_keys.running("*"))
            return {generation for key in keys for generation in connection.hkeys(key)}  # type: ignore[union-attr]

    # -- What is done to it

    def web_process(self) -> psutil.Process:
        """The process that serves pages, API and sockets."""
        assert self.up is not None
        children = psutil.Process(self.up.pid).children()
        return next(child for child in children if "config.asgi:application" in child.cmdline())

    def engine_host(self) -> psutil.Process:
        """The process of `manage.py engine`."""
        assert self.up is not None
        return _named(psutil.Process(self.up.pid).children(), "--replica")

    def valkey(self) -> psutil.Process:
        """The embedded Valkey."""
        assert self.up is not None
        return _named(psutil.Process(self.up.pid).children(), "unixsocket:")

    def engine_core(self) -> psutil.Process:
        """vLLM's own process under the engine host."""
        return _named(self.engine_host().children(recursive=True), "EngineCore")

    def hold_restarts(self) -> None:
        """The supervisor stands still: what is killed stays down until `allow_restarts`."""
        assert self.up is not None
        self.up.send_signal(signal.SIGSTOP)

    def allow_restarts(self) -> None:
        assert self.up is not None
        self.up.send_signal(signal.SIGCONT)


def _named(processes: list[psutil.Process], part: str) -> psutil.Process:
    """The one that has `part` in its command line. Raises LookupError when there is none."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if part in " ".join(process.cmdline()):
                return process
    raise LookupError(f"No process of {part}.")
