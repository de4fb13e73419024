"""The admin's replica view, on this box's supervisor."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.conf import settings

from config.supervisor import asking
from config.supervisor.asking import ask, begin
from config.supervisor.messages import Drain, ProcessState, Request, Restart, Status
from console.replicas.supervision import EngineProcess, NoSupervisor, NotDone, Supervised

# Longer than the supervisor waits for a Redis that is away.
ANSWERS_WITHIN_S = 3.0


class ControlSocket:
    """Asks over the control socket, which only the user may use that runs Nehir."""

    def state(self) -> Supervised:
        try:
            report = ask(
                Status(), var=_var(), folder=_folder(), say=_ignore, timeout_s=ANSWERS_WITHIN_S
            )
        except asking.NotDone as why:
            raise _translated(why) from why
        if report is None:
            raise NotDone("The supervisor is another version of Nehir.")
        engines = [_engine(each) for each in report.processes if each.release is not None]
        # One sentence; the end of the log that follows is for terminals.
        failed = report.failed.partition("\n")[0].removesuffix(":")
        return Supervised(engines, report.going_on, failed)

    def drain(self, name: str) -> None:
        self._begin(Drain(name))

    def restart(self, name: str, *, stop_first: bool) -> None:
        self._begin(Restart(name, stop_first=stop_first))

    def _begin(self, request: Request) -> None:
        try:
            begin(request, var=_var(), folder=_folder(), timeout_s=ANSWERS_WITHIN_S)
        except asking.NotDone as why:
            raise _translated(why) from why


def _engine(process: ProcessState) -> EngineProcess:
    since = datetime.fromisoformat(process.since).timestamp()
    return EngineProcess(process.name, process.release or "", process.state, since)


def _translated(why: asking.NotDone) -> NotDone:
    kind = NoSupervisor if isinstance(why, asking.NoSupervisor) else NotDone
    return kind(str(why))


def _var() -> Path:
    return Path(settings.VAR)


def _folder() -> Path:
    return Path(settings.SOCKET_FOLDER)


def _ignore(_: str) -> None:
    """What is said on the way is for terminals."""
