"""What to tell a reader while its answer waits in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference import queue
from inference.pipeline.admission import Admitted
from inference.services import estimates
from inference.services.estimates import Estimate
from kernel.redis import OUTAGE, client
from streaming.answer import Frame


@dataclass(frozen=True, slots=True)
class Queued:
    """position: 1 being next"""

    position: int
    estimate: Estimate | None

    def as_json(self) -> dict[str, Any]:
        """Estimates are null while there is nothing to tell them from."""
        return {
            "position": self.position,
            "eta_p50_s": round(self.estimate.p50_s, 1) if self.estimate else None,
            "eta_p90_s": round(self.estimate.p90_s, 1) if self.estimate else None,
        }


class QueueWatch:
    """One waiting answer's place, told when it has changed.

    quiet_s: seconds since anything was seen or told, by the reader's own beat of about a second
    """

    def __init__(self, admitted: Admitted) -> None:
        self._admitted = admitted
        self._started = False
        self._position: int | None = None
        self.quiet_s = 0

    def saw(self, frame: Frame) -> None:
        if frame.interrupted:
            self._started, self._position = False, None
        self._started |= frame.started
        self.quiet_s = 0

    async def changed(self) -> Queued | None:
        """Its place, if that is another than the last time; called about once a second."""
        self.quiet_s += 1
        if self._started:
            return None
        try:
            redis, release_id = client(), self._admitted.release_id
            position = await queue.place(redis, release_id, self._admitted.generation_id)
            if position is None or position == self._position:
                return None
            self._position, self.quiet_s = position, 0
            return Queued(position, await estimates.estimate(redis, release_id, position))
        except OUTAGE:
            return None
