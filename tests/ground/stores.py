"""A stack's database: made and filled once a session, then copied for every stack."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from tests.environment import ROOT, forget_install
from tests.ground.postgres import Postgres, target

SECRETS = {
    "NEHIR_SECRET_KEY": secrets.token_urlsafe(48),
    "NEHIR_KEY_PEPPER": secrets.token_urlsafe(48),
}


def environment(var: Path, database_url: str) -> dict[str, str]:
    """What a process of the platform needs to know."""
    own = {"NEHIR_VAR": str(var), "DATABASE_URL": database_url}
    paths = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
    return forget_install(dict(os.environ)) | SECRETS | own | {"PYTHONPATH": paths}


class Store:
    """One database, read and written past the platform, as an operator with a shell would."""

    def __init__(self, url: str, file: Path | None) -> None:
        """file: the database itself on SQLite, None on PostgreSQL"""
        self.url = url
        self._file = file

    def rows(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """Values by name, `:name` in the query."""
        if self._file is not None:
            with sqlite3.connect(self._file, timeout=20) as connection:
                connection.row_factory = sqlite3.Row
                found = [dict(row) for row in connection.execute(query, values).fetchall()]
            connection.close()
            return found
        named = query
        for name in values:
            named = named.replace(f":{name}", f"%({name})s")
        with psycopg.connect(target(self.url), row_factory=dict_row) as opened:
            cursor = opened.execute(named.encode(), values)
            return cursor.fetchall() if cursor.description else []


class Stores:
    """Makes stores. On PostgreSQL as databases of the session's server, else as files."""

    def __init__(self, folder: Path, postgres: Postgres | None) -> None:
        self._folder = folder
        self._postgres = postgres
        self._numbers = itertools.count(1)
        self._seeded = self._empty("seeded")
        self.world = self._seed()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.sqlite3"

    def _empty(self, name: str) -> Store:
        if self._postgres is not None:
            return Store(self._postgres.create_database(name), None)
        return Store("sqlite:///" + quote(str(self._file(name))), self._file(name))

    def _seed(self) -> Mapping[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.ground.seed"],
            env=environment(self._folder, self._seeded.url),
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"Seeding failed:\n{done.stderr[-4000:]}")
        world: Mapping[str, Any] = json.loads(done.stdout)
        return world

    def copy(self) -> Store:
        name = f"stack_{next(self._numbers)}"
        if self._postgres is not None:
            return Store(self._postgres.create_database(name, template="seeded"), None)
        shutil.copyfile(self._file("seeded"), self._file(name))
        return Store("sqlite:///" + quote(str(self._file(name))), self._file(name))
