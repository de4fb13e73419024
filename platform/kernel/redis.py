"""Redis access: one client an event loop, made from `REDIS_URL`, and the error it raises when Redis
is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import redis.asyncio
import redis.exceptions
from django.conf import settings

from kernel.errors import Unavailable

# redis.asyncio.Redis. Its annotations make every reply `bytes | str`, by a setting that is never
# changed here; checking against that would only add casts.
Client: TypeAlias = Any

# What redis-py raises when the server can't be reached or is starting up; everything else is a bug.
OUTAGE = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    OSError,
)

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()


def client() -> Client:
    """The running event loop's client. Replies are bytes; connections are made on first use and
    again after an outage.
    """
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = _connect()
    return _clients[loop]


def unavailable() -> Unavailable:
    return Unavailable(
        "The platform cannot reach its message store. Try again in a few seconds.", retry_after_s=2
    )


def _connect() -> Client:
    """Blocking reads have to be shorter than the timeout, which finds connections that are dead.

    Calls beyond the pool's connections wait for one: a burst of readers is no outage.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=256,
        timeout=5,
        socket_timeout=5,
        socket_connect_timeout=2,
    )
    return redis.asyncio.Redis.from_pool(pool)


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """A client of one's own, closed at the end: for event loops that end, as in a Celery task."""
    own = _connect()
    try:
        yield own
    finally:
        await own.aclose()
