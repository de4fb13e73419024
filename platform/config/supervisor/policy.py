"""What the supervisor decides, without processes and with an injected clock: when a child is
started again, and in what order children stop.

A child's life: idle -> running -> (it exits) waiting -> running …, and from anywhere -> stopping ->
stopped. A child that exits is started again after 1 s, 2 s, 4 s … 30 s; one that ran well for a
minute begins at 1 s anew.
"""

from __future__ import annotations

from enum import StrEnum

from kernel.clock import Clock

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
HEALTHY_AFTER_S = 60.0


class Phase(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPING = "stopping"
    STOPPED = "stopped"


class ImpossibleTransition(Exception):
    """The plumbing told the policy something that can't follow. A bug."""


class Life:
    """One child's state and the backoff of its restarts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at = 0.0
        self._next_delay_s = FIRST_DELAY_S
        self.phase = Phase.IDLE

    def started(self) -> None:
        self._go(Phase.RUNNING, {Phase.IDLE, Phase.WAITING})
        self._started_at = self._clock.monotonic()

    def exited(self) -> float | None:
        """The child is gone. Seconds after which to start it again, or None if it was being
        stopped.
        """
        if self.phase is Phase.STOPPING:
            self.phase = Phase.STOPPED
            return None
        self._go(Phase.WAITING, {Phase.RUNNING})
        if self._clock.monotonic() - self._started_at >= HEALTHY_AFTER_S:
            self._next_delay_s = FIRST_DELAY_S
        delay_s = self._next_delay_s
        self._next_delay_s = min(delay_s * 2, LONGEST_DELAY_S)
        return delay_s

    def stop(self) -> bool:
        """Nothing is started again from here on. True if there is a process to end first."""
        if self.phase is Phase.RUNNING:
            self.phase = Phase.STOPPING
            return True
        if self.phase is not Phase.STOPPING:
            self.phase = Phase.STOPPED
        return self.phase is Phase.STOPPING

    def _go(self, phase: Phase, allowed: set[Phase]) -> None:
        if self.phase not in allowed:
            raise ImpossibleTransition(f"{self.phase} -> {phase}")
        self.phase = phase
