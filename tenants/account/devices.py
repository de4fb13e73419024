"""What a browser says of itself, in two words for people. Who lies is told as what they claim."""

from __future__ import annotations

from django.utils.translation import gettext as _

# In order: most claim to be what comes later as well.
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def device_of(user_agent: str) -> str:
    """Such as `Firefox, Linux`; the user agent's beginning where it is no browser known here."""
    found = [_first(user_agent, names) for names in (BROWSERS, SYSTEMS)]
    return ", ".join(filter(None, found)) or user_agent[:40] or _("Unknown device")


def _first(user_agent: str, names: tuple[tuple[str, str], ...]) -> str:
    return next((name for mark, name in names if mark in user_agent), "")
