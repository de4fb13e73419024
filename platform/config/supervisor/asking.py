"""The asker's end of the control socket, for management commands."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from config.supervisor import messages
from config.supervisor.control import socket_path
from config.supervisor.instance import running_instance
from config.supervisor.messages import End, Report, Request, Say


class NotDone(Exception):
    """Why it wasn't: one sentence for the person at the terminal."""


class NoSupervisor(NotDone):
    """None runs from this state folder."""


class _Begun(Exception):
    """The supervisor has said something, and nobody waits for more."""


def ask(
    request: Request,
    *,
    var: Path,
    folder: Path,
    say: Callable[[str], None],
    timeout_s: float | None = None,
) -> Report | None:
    """Have the supervisor of a state folder do it; return when it is done. Raises NotDone.

    var, folder: state folder and the sockets' one; timeout_s: longest silence
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        _connect(connection, socket_path(folder), var)
        try:
            connection.sendall(messages.encode(request) + b"\n")
            end = _read_to_end(connection, say)
        except TimeoutError as fault:
            raise NotDone("The supervisor does not answer.") from fault
    if end.error:
        raise NotDone(end.error)
    return end.report


def begin(request: Request, *, var: Path, folder: Path, timeout_s: float) -> None:
    """Have the supervisor do it; return once it has begun, or is done. Raises NotDone if it was
    refused; how it ends, the supervisor's report says.
    """

    def has_begun(_: str) -> None:
        raise _Begun

    with contextlib.suppress(_Begun):
        ask(request, var=var, folder=folder, say=has_begun, timeout_s=timeout_s)


def _connect(connection: socket.socket, path: Path, var: Path) -> None:
    try:
        connection.connect(str(path))
    except PermissionError as fault:
        raise NotDone(f"Only the user that runs Nehir may do this ({path}).") from fault
    except OSError as fault:
        if running_instance(var):
            raise NotDone("Nehir is just starting or stopping: try again in a moment.") from fault
        raise NoSupervisor(f"No Nehir runs from {var}. `make run` starts one.") from fault


def _read_to_end(connection: socket.socket, say: Callable[[str], None]) -> End:
    try:
        with connection.makefile("rb") as lines:
            for line in lines:
                reply = messages.decode_reply.decode(line)
                if isinstance(reply, Say):
                    say(reply.text)
                else:
                    return reply
    except (ConnectionError, msgspec.DecodeError) as fault:
        raise NotDone(f"The supervisor's answer broke off: {fault}") from fault
    return End(error="The supervisor has ended before it was done.")
