"""Celery beat that may be started twice: whoever holds the lease in Redis schedules, the others
stand by.
"""

from __future__ import annotations

import logging
from typing import Any

import redis
import redis.exceptions
from django.conf import settings
from django_celery_beat.schedulers import DatabaseScheduler
from redis.lock import Lock

from kernel.redis import OUTAGE

log = logging.getLogger(__name__)

LEASE = "nehir:beat"
# Longer than two of beat's longest sleeps (5 s), so that a living leader never loses it.
LEASE_S = 15.0
STANDBY_S = 5.0


class LeaderScheduler(DatabaseScheduler):  # type: ignore[misc]
    """The database's schedule, run by one beat of many."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lease = Lock(
            redis.Redis.from_url(settings.REDIS_URL), LEASE, timeout=LEASE_S, thread_local=False
        )
        self._leads: bool | None = None
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due if this beat leads. Seconds until the next tick."""
        leads = self._hold_lease()
        if leads is not self._leads:
            log.info("This beat %s.", "leads" if leads else "stands by: another one leads")
            self._leads = leads
        return float(super().tick(*args, **kwargs)) if leads else STANDBY_S

    def close(self) -> None:
        if self._leads:
            try:
                self._lease.release()
            except (redis.exceptions.LockError, *OUTAGE) as fault:
                log.info("The lease ends by itself: %s", fault)
            self._leads = None
        super().close()

    def _hold_lease(self) -> bool:
        try:
            if self._lease.local.token is not None and self._lease.owned():
                return bool(self._lease.reacquire())
            return bool(self._lease.acquire(blocking=False))
        except OUTAGE as fault:
            log.warning("The message store can't be reached, nothing is scheduled: %s", fault)
            return False
