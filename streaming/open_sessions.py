"""The sessions that sockets of this web process go on by, looked at anew all the time: signing out,
a revoked session, another password, deactivation, the end of a membership and a second factor that
is called for reach a socket that says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from kernel.clock import Clock, SystemClock
from kernel.database import database
from kernel.loops import one_per_loop
from kernel.rounds import Rounds
from streaming.services.sessions import SignedIn, SignedOut, refusals
from tenants.access import Access
from tenants.principal import Principal


class OpenSessions:
    """Of one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[Access, _Watched] = {}
        self._rounds = Rounds("open-sessions", self.round, lambda: settings.KEY_CACHE_S / 2)

    def access(self, session_key: str, password_mark: str, principal: Principal) -> Access:
        """password_mark: as of `SignedIn`"""
        return Access(principal, _Watched(self, session_key, password_mark), where=lambda: None)

    def add(self, access: Access, watched: _Watched) -> None:
        self._open[access] = watched
        self._rounds.keep_running()

    def discard(self, access: Access) -> None:
        self._open.pop(access, None)

    async def round(self) -> bool:
        """End what goes on by a session or membership that has ended. Whether any is left."""
        asked = {
            access: SignedIn(
                by.session_key, by.password_mark, access.principal.id, access.principal.tenant_id
            )
            for access, by in self._open.items()
        }
        refused = await database(refusals, set(asked.values()), now=self._clock.now())
        for access, signed_in in asked.items():
            # Signed out here, the person may be reading on elsewhere.
            if error := refused.get(signed_in):
                access.end(error, is_withdrawn=not isinstance(error, SignedOut))
        return bool(self._open)


@dataclass(frozen=True, slots=True)
class _Watched:
    sessions: OpenSessions
    session_key: str
    password_mark: str

    def add(self, access: Access) -> None:
        self.sessions.add(access, self)

    def discard(self, access: Access) -> None:
        self.sessions.discard(access)


@one_per_loop
def open_sessions() -> OpenSessions:
    """The running event loop's."""
    return OpenSessions(SystemClock())
