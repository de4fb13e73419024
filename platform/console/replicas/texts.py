"""What the page's JavaScript needs: addresses, and words in the reader's language. Words in braces
are filled in there.
"""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from inference.replica_history import SPAN_S
from inference.services.shares import WINDOW_S


def settings() -> dict[str, Any]:
    names = ("state", "drain", "restart")
    return {
        "urls": {name: reverse(f"admin:replicas_{name}") for name in names},
        "span_s": SPAN_S,
        "shares_s": WINDOW_S,
        "texts": {
            "states": _states(),
            "since": {
                "seconds": _("for {count} s"),
                "minutes": _("for {count} min"),
                "hours": _("for {count} h"),
                "days": _("for {count} d"),
            },
            "ago": _("last heard of {count} s ago"),
            "took": {
                "seconds": _("{count} s"),
                "minutes": _("{count} min"),
                "hours": _("{count} h"),
            },
            "within": _("{likely}, at most {longest}"),
            "unknown": _("not known yet"),
            "plot": _("Tokens a second in the last {minutes} min: at most {most}, now {now}"),
            "latency": _latency(),
            "waits": _("{count} waiting"),
            "kv": _("{used} of {total} blocks"),
            "percent": _("{count} %"),
            "shares": {
                "within": _("in the last {minutes} min"),
                "bar": _("{part} % of the class; its weight entitles it to {entitled} %"),
                "short": _("It waits and has had less than its share."),
            },
            "changed": _("Replica {replica}: {state}"),
            "gone": _("Replica {replica} has left"),
            "going_on": _("The supervisor is at work: {what}."),
            "failed": _("The last restart was broken off: {why}"),
            "unreachable": _(
                "Nehir does not answer; what is shown may be out of date. Trying again …"
            ),
            "not_sent": _("That did not reach Nehir. Try again."),
        },
        "priority_classes": {
            "interactive": pgettext("priority", "interactive"),
            "standard": pgettext("priority", "standard"),
            "batch": pgettext("priority", "batch"),
        },
    }


def _latency() -> dict[str, str]:
    return {
        "none": _("none"),
        "ms": _("{count} ms"),
        "of": _("{limit} of {slots}"),
        "p95_plot": _(
            "Between tokens, p95 in the last {minutes} min: at most {most} ms, now {now} ms"
        ),
        "limit_plot": _("How many might run in the last {minutes} min: at most {most}, now {now}"),
    }


def _states() -> dict[str, str]:
    return {
        "starting": pgettext("replica", "starting"),
        "loading": pgettext("replica", "loading"),
        "ready": pgettext("replica", "ready"),
        "draining": pgettext("replica", "draining"),
        "stopped": pgettext("replica", "stopped"),
        "failing": pgettext("replica", "failing"),
        "lost": pgettext("replica", "lost"),
    }
