"""The database from async code: a bounded pool of threads, none of them held for the length of a
stream.

`sync_to_async` runs everything of one request in one thread and opens a connection there; a stream
would keep it. Here each call borrows one of a few threads, whose connection stays open on SQLite
and goes back to psycopg's pool on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import close_old_connections, connection, transaction

P = ParamSpec("P")
R = TypeVar("R")

_turn = threading.Lock()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.DATABASE_THREADS, thread_name_prefix="database")


def _call(verb: Callable[[], R]) -> R:
    close_old_connections()
    try:
        return verb()
    finally:
        close_old_connections()


async def database(verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a synchronous verb that uses the ORM, in the caller's tenant scope and language."""
    context = contextvars.copy_context()
    call = functools.partial(_call, functools.partial(verb, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_threads(), context.run, call)


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """A transaction that writes. SQLite has one writer, and whoever finds it busy sleeps, up to a
    tenth of a second at a time: within a process the next one is woken instead.
    """
    # Inside a transaction the turn is taken already, or was never asked for.
    takes_turns = connection.vendor == "sqlite" and not connection.in_atomic_block
    with _turn if takes_turns else contextlib.nullcontext(), transaction.atomic():
        yield
