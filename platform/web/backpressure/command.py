"""Daphne's command line, with options for flow control."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from dataclasses import fields
from functools import partial

from daphne.cli import CommandLineInterface

from .options import FlowOptions
from .server import FlowServer


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, not negative")
    return value


# Option, field of FlowOptions, reader, help.
OPTIONS = (
    (
        "--high-water",
        "high_water_bytes",
        _positive,
        "Bytes a connection buffers before `send` waits",
    ),
    (
        "--send-buffer",
        "send_buffer_bytes",
        _positive,
        "Bytes the kernel keeps unsent for a connection",
    ),
    (
        "--stall-timeout",
        "stall_timeout_s",
        _seconds,
        "Seconds after which a reader that takes nothing of what waits is cut off. 0: no limit",
    ),
    (
        "--drain-grace",
        "drain_grace_s",
        _seconds,
        "Seconds applications have to end after SIGTERM or SIGINT before they are cancelled",
    ),
    (
        "--header-timeout",
        "header_timeout_s",
        _seconds,
        "Seconds a request's headers may take, and a body without progress. 0: no limit",
    ),
    ("--max-body", "max_body_bytes", _whole, "Bytes of a request's body. 0: no limit"),
    ("--max-connections", "max_connections", _whole, "Connections at once. 0: no limit"),
    (
        "--inbound-messages",
        "inbound_messages",
        _positive,
        "WebSocket messages waiting for an application before its socket is not read any more",
    ),
    (
        "--inbound-bytes",
        "inbound_bytes",
        _positive,
        "The same, in bytes",
    ),
)


def _tell_ready(descriptor: int) -> None:
    """A line and the end of the file, as s6 and others wait for."""
    with os.fdopen(descriptor, "wb") as told:
        told.write(b"\n")


class FlowCommand(CommandLineInterface):  # type: ignore[misc]
    """`python -m web.backpressure`: every option of `daphne`, and OPTIONS."""

    description = "Django HTTP/WebSocket server with backpressure and drain"

    def __init__(self) -> None:
        super().__init__()
        defaults = FlowOptions()
        group = self.parser.add_argument_group("flow control")
        for option, field, read, text in OPTIONS:
            default = getattr(defaults, field)
            text = f"{text} (default {default:g})"
            group.add_argument(option, dest=field, type=read, default=default, help=text)
        group.add_argument(
            "--ready-fd",
            type=_whole,
            help="Descriptor to write a line to, and to close, once connections are accepted",
        )

    def run(self, args: list[str]) -> None:
        """Serve until stopped."""
        given = vars(self.parser.parse_args(args))
        known = {field.name for field in fields(FlowOptions)}
        options = FlowOptions(**{name: given[name] for name in known & given.keys()})
        descriptor = given["ready_fd"]
        ready = None if descriptor is None else partial(_tell_ready, descriptor)
        self.server_class = partial(FlowServer, options=options, ready_callable=ready)
        super().run(args)
        if self.server.abandoned:
            # Threads of theirs would be waited for without a limit.
            logging.shutdown()
            sys.stdout.flush()
            os._exit(0)
