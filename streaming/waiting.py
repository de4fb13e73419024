"""What to tell a reader while its answer waits in the queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from inference.forecast import Wait
from inference.pipeline.admission import Admitted
from inference.services.estimates import Forecast, forecasts
from kernel.redis import OUTAGE, client
from streaming.answer import Frame

# An estimate that has moved by less than this share, or these seconds, isn't worth telling.
CHANGE, CHANGE_S = 0.25, 5.0


def seconds() -> float:
    """Of the event loop's clock."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Queued:
    """position: 1 being next; wait: None while there is nothing to tell it from"""

    position: int
    wait: Wait | None

    def as_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "eta_p50_s": round(self.wait.p50_s, 1) if self.wait else None,
            "eta_p90_s": round(self.wait.p90_s, 1) if self.wait else None,
        }


class QueueWatch:
    """One waiting answer's place and wait, told when they have changed.

    A place that was told is never taken back: whoever has had less may still come first, which the
    estimate knows.

    quiet_s: seconds since anything was seen or told, by the reader's own beat of about a second
    """

    def __init__(self, admitted: Admitted) -> None:
        self._admitted = admitted
        self._started = False
        self._told: Queued | None = None
        self._told_at = 0.0
        # The first estimate and when it was told: it is the one that has to come true.
        self._first: tuple[Wait, float] | None = None
        self.quiet_s = 0

    def saw(self, frame: Frame) -> None:
        if frame.started and not self._started and self._first is not None:
            wait, told_at = self._first
            waited_s = seconds() - told_at
            admitted = self._admitted
            forecasts().came(admitted.release_id, admitted.model, wait, waited_s)
        if frame.interrupted:
            # It waits again, in another place.
            self._started, self._told, self._first = False, None, None
        self._started |= frame.started
        self.quiet_s = 0

    async def changed(self) -> Queued | None:
        """Its place and wait, if they are others than the last time; called about once a second."""
        self.quiet_s += 1
        if self._started:
            return None
        try:
            forecast = await forecasts().of(client(), self._admitted.release_id)
        except OUTAGE:
            return None
        queued = self._queued(forecast)
        now = seconds()
        if queued is None or not self._is_news(queued, now):
            return None
        self._told, self._told_at, self.quiet_s = queued, now, 0
        if queued.wait and self._first is None:
            self._first = queued.wait, now
        return queued

    def _queued(self, forecast: Forecast) -> Queued | None:
        """None if it doesn't wait (any more)."""
        wait = forecast.waits.get(self._admitted.generation_id)
        position = forecast.positions.get(self._admitted.generation_id)
        if position is None:
            return None
        return Queued(min(position, self._told.position) if self._told else position, wait)

    def _is_news(self, queued: Queued, now: float) -> bool:
        told = self._told
        if told is None or queued.position != told.position:
            return True
        if queued.wait is None or told.wait is None:
            return queued.wait is not told.wait
        counted_down = max(0.0, told.wait.p50_s - (now - self._told_at))
        moved = abs(queued.wait.p50_s - counted_down)
        return moved > max(CHANGE_S, CHANGE * counted_down)
