"""The control socket: an operator's commands to a running supervisor.

In a folder that only this user may enter, and itself only theirs. A request that isn't one is
answered with a sentence; an operation goes on when its asker has left.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from config.supervisor import messages
from config.supervisor.instance import Unusable
from config.supervisor.messages import LINE_BYTES, Drain, End, Report, Request, Restart
from config.supervisor.messages import Say as Said
from config.supervisor.operations import Operations
from config.supervisor.replacement import Refused
from config.supervisor.supervisor import Say

# A request is written at once by whoever connects.
REQUEST_TIMEOUT_S = 5.0
# Those that connect and say nothing; more wait to be accepted.
ASKERS_AT_ONCE = 16


class Control:
    def __init__(self, operations: Operations, report: Callable[[], Awaitable[Report]]) -> None:
        self._operations = operations
        self._report = report
        self._askers = asyncio.Semaphore(ASKERS_AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def open(self, path: Path) -> None:
        """path: in a private folder; what a supervisor before has left there is replaced"""
        self._path = path
        bound = _private_socket(path)
        self._server = await asyncio.start_unix_server(self._asked, sock=bound, limit=LINE_BYTES)

    async def close(self) -> None:
        """Break operations off, and tell those who wait for them."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._server:
            self._server.close()
        if self._path:
            _remove(self._path)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # An asker that leaves, or reads nothing, must not hold up what it has asked for.
        try:
            async with self._askers, asyncio.timeout(REQUEST_TIMEOUT_S):
                line = await reader.readline()
            request = messages.decode_request.decode(line)
        except (TimeoutError, ValueError, msgspec.DecodeError):
            _write(writer, End(error="That is no request of this version of Nehir."))
        except ConnectionError:
            return
        else:
            task = asyncio.create_task(self._carry_out(request, writer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            await asyncio.wait({task})
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _carry_out(self, request: Request, writer: asyncio.StreamWriter) -> None:
        try:
            end = await self._do(request, lambda text: _write(writer, Said(text)))
        except (Refused, Unusable) as why:
            end = End(error=str(why))
        except asyncio.CancelledError:
            _write(writer, End(error="Nehir was stopped before that was done."))
            raise
        _write(writer, end)

    async def _do(self, request: Request, say: Say) -> End:
        if isinstance(request, Restart):
            await self._operations.restart(request.what, stop_first=request.stop_first, say=say)
        elif isinstance(request, Drain):
            await self._operations.drain(request.what, say=say)
        else:
            return End(report=await self._report())
        return End()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _private_socket(path: Path) -> socket.socket:
    _remove(path)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)
    return bound


def _write(writer: asyncio.StreamWriter, reply: messages.Reply) -> None:
    """Without waiting for the reader: a few lines are no burden."""
    if not writer.is_closing():
        writer.write(messages.encode(reply) + b"\n")


def socket_path(folder: Path) -> Path:
    """Where it is, in the folder of the sockets: no longer than Valkey's, for paths of sockets are
    short.
    """
    return folder / "up.sock"
