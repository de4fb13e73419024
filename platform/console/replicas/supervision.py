"""What the view asks of whatever starts and stops engine hosts here. The project above provides it
(`provide`), since it imports this package and not the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class NotDone(Exception):
    """Why it wasn't: one sentence, in English, for an operator."""


class NoSupervisor(NotDone):
    """Nothing here starts and stops engine hosts: they run elsewhere, under something else."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """name: by which it is drained and restarted; phase: the supervisor's word, running among them;
    since: in Unix seconds
    """

    name: str
    release: str
    phase: str
    since: float


@dataclass(frozen=True, slots=True)
class Supervised:
    """going_on: the operation under way, if any; failed: why the last one was broken off"""

    engines: Sequence[EngineProcess]
    going_on: str = ""
    failed: str = ""


class Supervision(Protocol):
    """Its calls block, for seconds at most, and raise NotDone."""

    def state(self) -> Supervised: ...

    def drain(self, name: str) -> None:
        """Begin to."""
        ...

    def restart(self, name: str, *, stop_first: bool) -> None:
        """Begin to."""
        ...


class _Nothing:
    def state(self) -> Supervised:
        raise NoSupervisor("No supervisor runs here.")

    def drain(self, name: str) -> None:
        raise NoSupervisor("No supervisor runs here.")

    def restart(self, name: str, *, stop_first: bool) -> None:
        raise NoSupervisor("No supervisor runs here.")


_provided: list[Supervision] = [_Nothing()]


def provide(supervision: Supervision) -> None:
    _provided[:] = [supervision]


def supervision() -> Supervision:
    return _provided[0]
