"""Redis access: one client an event loop, made from `REDIS_URL`, and the error it raises when Redis
is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import redis.asyncio
import redis.exceptions
from django.conf import settings

from kernel.errors import Unavailable
from kernel.loops import one_per_loop

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

SOCKET_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 2.0


@one_per_loop
def client() -> Client:
    """The running event loop's client. Replies are bytes; connections are made on first use and
    again after an outage.
    """
    return _connect()


def unavailable() -> Unavailable:
    return Unavailable(
        "The platform cannot reach its message store. Try again in a few seconds.", retry_after_s=2
    )


class CancellableSending(redis.asyncio.connection.AbstractConnection):
    """Sends so that a cancellation gets through.

    redis-py sends under `asyncio.wait_for`, which, before Python 3.12, drops a cancellation that
    comes at the moment the sending ends: a task told to stop would go on. It starts a task for
    every command as well.
    """

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        limit_s, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await super().send_packed_command(command, check_health)
        except TimeoutError as error:
            await self.disconnect(nowait=True)
            raise redis.exceptions.TimeoutError("Timeout writing to the socket") from error
        finally:
            self.socket_timeout = limit_s


class _Tcp(CancellableSending, redis.asyncio.Connection):
    pass


class _Tls(CancellableSending, redis.asyncio.SSLConnection):
    pass


class _Unix(CancellableSending, redis.asyncio.UnixDomainSocketConnection):
    pass


_CONNECTIONS: dict[Any, Any] = {
    redis.asyncio.Connection: _Tcp,
    redis.asyncio.SSLConnection: _Tls,
    redis.asyncio.UnixDomainSocketConnection: _Unix,
}


def _connect() -> Client:
    """Blocking reads have to be shorter than the timeout, which finds connections that are dead.

    Calls beyond the pool's connections wait for one: a burst of readers is no outage.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=256,
        timeout=SOCKET_TIMEOUT_S,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
    )
    # What every reply here is read as; under the newer one redis-py takes many apart twice.
    pool.connection_kwargs["protocol"] = 2
    pool.connection_class = _CONNECTIONS[pool.connection_class]
    return redis.asyncio.Redis.from_pool(pool)


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """A client of one's own, closed at the end: for event loops that end, as in a Celery task."""
    own = _connect()
    try:
        yield own
    finally:
        await own.aclose()
