"""The end of a web process, as its readers see it: they are told to come back just before it."""

from __future__ import annotations

from typing import Any, Protocol

from django.http import HttpRequest

from kernel.errors import Unavailable

# Before applications are cancelled: time to write the last event and for the client to read it.
LAST_WORDS_S = 2.0


class Restarting(Unavailable):
    """The web process leaves; the answer goes on, and another process has it."""

    code = "server_restarting"


class Signal(Protocol):
    """remaining_s: until applications are cancelled; None while no drain has begun."""

    def is_set(self) -> bool: ...

    @property
    def remaining_s(self) -> float | None: ...


class Drain:
    """What a connection's scope says about the drain of its server; nothing, with other servers."""

    def __init__(self, scope: dict[str, Any]) -> None:
        extension = scope.get("extensions", {}).get("drain")
        self._signal: Signal | None = extension["event"] if extension else None

    @classmethod
    def of(cls, request: HttpRequest) -> Drain:
        return cls(getattr(request, "scope", {}))

    @property
    def has_begun(self) -> bool:
        return self._signal is not None and self._signal.is_set()

    def check(self) -> None:
        """Raises Restarting when it is time to go."""
        remaining_s = self._signal.remaining_s if self._signal else None
        if remaining_s is not None and remaining_s <= LAST_WORDS_S:
            raise _restarting()

    def check_begun(self) -> None:
        """Raises Restarting as soon as the drain has begun: for who has nothing to wait for."""
        if self.has_begun:
            raise _restarting()


def _restarting() -> Restarting:
    return Restarting("The server restarts. Reconnect to go on.", retry_after_s=1)


NO_DRAIN = Drain({})
