"""Wire shapes of the control socket: a request is one line of JSON, its reply several, the last of
them an End.
"""

from __future__ import annotations

import msgspec

VERSION = 1
# A request is a few words.
LINE_BYTES = 4096


class _Asked(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    pass


class Restart(_Asked, frozen=True, tag="restart"):
    """Put new processes in the place of those that run, or bring back what was drained.

    what: a kind of process, or the name of one
    stop_first: the old one leaves before the new one is started
    """

    what: str
    stop_first: bool = False


class Drain(_Asked, frozen=True, tag="drain"):
    """Let them end what they do, and leave them stopped."""

    what: str


class Status(_Asked, frozen=True, tag="status"):
    """How everything is."""


Request = Restart | Drain | Status


class ProcessState(msgspec.Struct, frozen=True):
    """since: start of the present state, ISO 8601; restarts: by itself, after it had ended
    release: what an engine serves
    """

    name: str
    state: str
    pid: int | None
    since: str
    restarts: int
    release: str | None = None


class ReplicaState(msgspec.Struct, frozen=True):
    """running, held, waiting: generations in its engine"""

    replica: str
    release: str
    state: str
    running: int
    held: int
    waiting: int


class Report(msgspec.Struct, frozen=True):
    """replicas: None while Redis doesn't answer
    going_on: the restart or drain that is under way; failed: why the last one was broken off
    """

    processes: list[ProcessState]
    replicas: list[ReplicaState] | None
    going_on: str = ""
    failed: str = ""


class Say(msgspec.Struct, frozen=True, tag_field="is", tag="say"):
    """Progress, for a person."""

    text: str


class End(msgspec.Struct, frozen=True, tag_field="is", tag="end"):
    """error: why it was not done, for a person"""

    error: str | None = None
    report: Report | None = None
    version: int = VERSION


Reply = Say | End

encode = msgspec.json.Encoder().encode
decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_reply: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)
