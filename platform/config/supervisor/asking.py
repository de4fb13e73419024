"""The asker's end of the control socket, for management commands."""

from __future__ import annotations

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


def ask(request: Request, *, var: Path, folder: Path, say: Callable[[str], None]) -> Report | None:
    """Have the supervisor of a state folder do it; return when it is done. Raises NotDone.

    var, folder: state folder and the sockets' one
    """
    with socket.socket(socket.AF_UNIX) as connection:
        _connect(connection, socket_path(folder), var)
        connection.sendall(messages.encode(request) + b"\n")
        end = _read_to_end(connection, say)
    if end.error:
        raise NotDone(end.error)
    return end.report


def _connect(connection: socket.socket, path: Path, var: Path) -> None:
    try:
        connection.connect(str(path))
    except PermissionError as fault:
        raise NotDone(f"Only the user that runs Nehir may do this ({path}).") from fault
    except OSError as fault:
        if running_instance(var):
            raise NotDone("Nehir is just starting or stopping: try again in a moment.") from fault
        raise NotDone(f"No Nehir runs from {var}. `make run` starts one.") from fault


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
