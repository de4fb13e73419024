"""The platform's own processes, as they run in production, on a port of their own."""

from __future__ import annotations

import itertools
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from config.supervisor.services import web_command
from inference import messages, redis_keys
from inference.messages import Entry, Finished, ReplicaRecord, Tokens
from tests.environment import ROOT
from tests.ground.processes import Child, wait_until
from tests.ground.stores import Store, environment
from tests.ground.valkey import Valkey


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """session: value of the session cookie of `username`, a member; key, other_key: of two
    applications; admin_key: with the scope `admin`
    """

    id: str
    username: str
    key: str
    other_key: str
    admin_key: str
    revoked_key: str
    session: str


class Stack:
    """Valkey, engine hosts and web processes over one database. `folder` holds state and logs."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        world: Mapping[str, Any],
        web_options: Sequence[str] = (),
        **settings: str,
    ) -> None:
        """web_options: of the web server's command; settings: environment of all processes."""
        self.folder = folder
        self.store = store
        self.release_id: str = world["release"]
        # Value of the session cookie of a person who runs the platform.
        self.operator: str = world["operator"]
        self.acme, self.globex, self.closed = (
            TenantAccess(**world["tenants"][slug]) for slug in ("acme", "globex", "closed")
        )
        self.valkey = Valkey(folder / "valkey.sock")
        self._env = environment(folder, store.url) | {"REDIS_URL": self.valkey.url, **settings}
        self._web_options = web_options
        self._numbers = itertools.count(1)
        self._children: list[Child] = []
        self.engine: Child | None = None
        self.web: Child | None = None
        self.url = ""

    def start(self, *, engine: bool = True) -> Stack:
        self.valkey.start()
        if engine:
            self.engine = self.start_engine(wait=False)
        self.web, self.url = self.start_web()
        if engine:
            self.wait_for_engine()
        return self

    def start_engine(self, *, wait: bool = True, replica: str = "engine") -> Child:
        command = [sys.executable, ROOT / "manage.py", "engine", "--release", "fake"]
        known = {record.incarnation for record in self.replicas()}
        child = self.start_child("engine", [*command, "--replica", replica])
        if wait:
            self.wait_for_engine(besides=known)
        return child

    def wait_for_engine(self, *, besides: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        """Until a replica is ready that isn't one of `besides`."""
        wait_until(
            lambda: any(
                record.state == "ready" and record.incarnation not in besides
                for record in self.replicas()
            ),
            what="an engine host is ready",
        )

    def start_web(self, *options: str) -> tuple[Child, str]:
        """A web process and the URL it answers at; options: besides its stack's."""
        port = _free_port()
        *command, application = web_command("--bind", "127.0.0.1", "--port", port)
        # Of an option that is given twice, the second counts.
        command += [*self._web_options, *options, application]
        child = self.start_child("web", command)
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url, child), what="the web process answers")
        return child, url

    def start_child(self, kind: str, command: list[str | Path]) -> Child:
        name = f"{kind}-{next(self._numbers)}"
        log = self.folder / f"{name}.log"
        child = Child(name, command, log=log, env=self._env, cwd=ROOT)
        self._children.append(child)
        return child

    def stop(self) -> None:
        for child in reversed(self._children):
            child.end()
        self.valkey.stop()

    # -- What the tests look at

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.valkey.url)

    def replicas(self) -> list[ReplicaRecord]:
        with self.redis as connection:
            names = connection.smembers(redis_keys.REPLICAS)
            raw = [connection.get(redis_keys.replica(name.decode())) for name in names]  # type: ignore[union-attr]
        return [messages.decode_replica(record) for record in raw if record]  # type: ignore[arg-type]

    def running(self) -> int:
        """Requests inside the engines, by their own heartbeat."""
        return sum(record.running + record.waiting for record in self.replicas())

    def unsettled(self) -> list[str]:
        """Generations that some replica has taken and not settled."""
        with self.redis as connection:
            keys = connection.keys(redis_keys.running("*"))
            return [name.decode() for key in keys for name in connection.hkeys(key)]  # type: ignore[union-attr]

    def waiting(self) -> int:
        with self.redis as connection:
            return int(connection.zcard(redis_keys.queue(self.release_id)))  # type: ignore[arg-type]

    def generation(self, generation_id: str) -> dict[str, Any]:
        query = "SELECT * FROM inference_generation WHERE id = :id"
        (found,) = self.store.rows(query, id=generation_id)
        return found

    def settled(self, generation_id: str) -> dict[str, Any]:
        """The generation's record once it is settled."""
        wait_until(
            lambda: self.generation(generation_id)["settled_at"] is not None,
            what=f"{generation_id} is settled",
        )
        return self.generation(generation_id)

    def suspended(self, generation_id: str) -> dict[str, Any]:
        """The generation's checkpoint, once it is taken out of its engine."""
        query = "SELECT * FROM inference_checkpoint WHERE generation_id = :id"
        return wait_until(
            lambda: self.store.rows(query, id=generation_id), what=f"{generation_id} is suspended"
        )[0]

    def held(self) -> int:
        """Requests that the engines hold, by their own heartbeat."""
        return sum(record.held for record in self.replicas())

    def log(self, generation_id: str) -> list[Entry]:
        """What a generation's log holds, read past the platform; nothing if it has none."""
        with self.redis as connection:
            keys = connection.keys(redis_keys.log("*", generation_id))
            raw = connection.xrange(keys[0]) if keys else []  # type: ignore[index]
        return [messages.decode_entry(fields[b"e"]) for _, fields in raw]  # type: ignore[union-attr]

    def logged(self, generation_id: str) -> tuple[str, int]:
        """Text and number of tokens of a log that nothing is missing from."""
        text, seq = [], 0
        for entry in self.log(generation_id):
            if isinstance(entry, Tokens):
                assert entry.seq - len(entry.token_ids) == seq, "the log has a gap"
                seq = entry.seq
            if isinstance(entry, Tokens | Finished):
                text.append(entry.text)
        return "".join(text), seq

    def wait_until_idle(self) -> None:
        """Until nothing waits, runs or is left to settle anywhere."""
        wait_until(
            lambda: not (self.waiting() or self.running() or self.unsettled()),
            what="nothing waits, runs or is left to settle",
        )

    def logs(self) -> str:
        return "".join(child.output() for child in self._children)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str, child: Child) -> bool:
    child.check_alive()
    try:
        urllib.request.urlopen(f"{url}/v1/models", timeout=5).close()  # noqa: S310 - our own process
    except urllib.error.HTTPError:
        return True  # 401: it is there
    except OSError:
        return False
    return True
