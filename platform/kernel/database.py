"""The database from async code: a bounded pool of threads, none of them held for the length of a
stream.

`sync_to_async` runs everything of one request in one thread and opens a connection there; a stream
would keep it. Here each call borrows one of a few threads, whose connection stays open on SQLite
and goes back to psycopg's pool on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")


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
