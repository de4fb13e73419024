"""The list of conversations beside the chat, by the days of the person's own time zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import groupby
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from streaming.models import Conversation
from streaming.services.running import RunningAnswer

# Set by the pages' JavaScript from the browser's own zone.
TIMEZONE_COOKIE = "nehir_timezone"
LISTED = 200


@dataclass(frozen=True, slots=True)
class Item:
    """answer: state of the answer that is in the making, empty if none is"""

    conversation: Conversation
    is_current: bool
    answer: str


@dataclass(frozen=True, slots=True)
class Day:
    """name: stable, for scripts and tests: today, yesterday or earlier"""

    name: str
    heading: str
    conversations: list[Item]


def days(
    conversations: list[Conversation],
    *,
    zone: tzinfo,
    now: datetime,
    current: str | None = None,
    running: Mapping[str, RunningAnswer] = MappingProxyType({}),
) -> list[Day]:
    """The conversations, latest first, by day; "today" always, since new ones go into it."""
    today = now.astimezone(zone).date()
    headings = {"today": _("Today"), "yesterday": _("Yesterday"), "earlier": _("Earlier")}

    def day_of(item: Item) -> str:
        day = item.conversation.updated_at.astimezone(zone).date()
        if day >= today:
            return "today"
        return "yesterday" if day == today - timedelta(days=1) else "earlier"

    items = [
        Item(each, each.id == current, running[each.id].state if each.id in running else "")
        for each in conversations
    ]
    by_day = {name: list(group) for name, group in groupby(items, day_of)}
    return [
        Day(name, heading, by_day.get(name, []))
        for name, heading in headings.items()
        if name == "today" or name in by_day
    ]


def zone_of(request: HttpRequest) -> tzinfo:
    """The browser's time zone as its cookie names it; the server's if there is no such zone."""
    try:
        return ZoneInfo(request.COOKIES[TIMEZONE_COOKIE])
    except (KeyError, ValueError, OSError, ZoneInfoNotFoundError):
        return timezone.get_default_timezone()
