"""Which models can be asked, as the chat shows it."""

from __future__ import annotations

import logging

from django.db import Error as DatabaseUnusable

from inference.services import catalog
from inference.services.catalog import ModelState
from kernel.redis import OUTAGE

log = logging.getLogger(__name__)


async def now_or(known: list[ModelState] | None) -> list[ModelState] | None:
    """Their states now; what is known already where they can't be asked for."""
    try:
        try:
            return await catalog.model_states()
        except OUTAGE:
            return await catalog.all_down()
    except DatabaseUnusable as error:
        log.warning("The models' states are not known: %s", error)
        return known
