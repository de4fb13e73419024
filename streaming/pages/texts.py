"""Texts that the page's JavaScript shows, translated on the server and handed over as JSON.

Words in braces are filled in by the JavaScript.
"""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import pgettext


def chat_texts() -> dict[str, dict[str, str]]:
    """Groups of texts by where they appear, in the language of the request."""
    return {
        "connection": {
            "connecting": _("Connecting…"),
            "open": _("Connected"),
            "queued": _("Waiting for a free connection ({place} in line)"),
            "closed": _("Connection lost. Reconnecting…"),
            "full": _("Too many connections just now. Trying again…"),
            "refused": _(
                "The server refuses the connection of this page. Open the chat at its own address, "
                "or ask your administrator whether you are still a member."
            ),
        },
        "model": {
            "loading": _("{model} (loading)"),
            "down": _("{model} (not running)"),
            "none": _("No model"),
        },
        "banner": {
            "loading": _("The model is loading; your message waits in the queue."),
            "down": _(
                "The model is not running; your message waits in the queue until it is back."
            ),
            "none": _("No model is set up yet. Ask your administrator."),
        },
        "answer": {
            "sending": _("Sending…"),
            "waiting": _("Waiting for the model…"),
            "next": _("Next in the queue"),
            "position": _("{place} in the queue"),
            "length": _("Cut off: the answer reached its length limit."),
            "stopped": _("Stopped."),
            "resuming": _("Connection lost, going on as soon as it is back"),
            "engineLost": _("The model stopped; the answer goes on in a moment…"),
            "engineLeft": _("The model restarts; the answer goes on in a moment…"),
            "takingUp": _("This answer is still being made…"),
            "gap": _("… part of this answer is no longer kept …"),
            "failed": _("The answer failed before it was finished."),
            "unanswered": _("This message has no answer."),
            "speed": _("{tokens} tokens · {rate} tokens/s"),
            "tokens": _("{tokens} tokens"),
            "announced": _("The answer is finished."),
        },
        "ordinal": {
            # English endings of 1st, 2nd, 3rd and 4th; other languages may have one for all.
            "one": pgettext("ordinal like 1st", "{position}st"),
            "two": pgettext("ordinal like 2nd", "{position}nd"),
            "few": pgettext("ordinal like 3rd", "{position}rd"),
            "other": pgettext("ordinal like 4th", "{position}th"),
        },
        "queue": {
            # Behind a place in the queue.
            "about": _(", about {likely}"),
            "within": _(", about {likely} (at most {longest})"),
            "soon": _(", any moment now"),
            "seconds": _("{count} s"),
            "minutes": _("{count} min"),
            "hours": _("{count} h"),
        },
        "sidebar": {
            "open": _("Being answered"),
            "suspended": _("The answer goes on when you open it"),
        },
        "actions": {
            "copy": _("Copy"),
            "copied": _("Copied"),
            "notCopied": _("Your browser does not let this page copy."),
            "notSaved": _("That did not work. Check your connection and try again."),
        },
        "errors": _errors(),
    }


def _errors() -> dict[str, str]:
    """By the code of the error; of others the server's own message is shown."""
    return {
        "queue_full": _("Too many people are waiting just now. Try again in a moment."),
        "queue_timeout": _("The wait in the queue was too long. Try again."),
        "context_length_exceeded": _(
            "The conversation is too long for this model. Start a new chat or shorten your message."
        ),
        "model_not_found": _("This model is not available. Choose another one."),
        "conversation_not_found": _("This conversation no longer exists. Start a new chat."),
        "conversation_busy": _("This chat is still being answered, perhaps in another tab."),
        "too_many_answers": _("Too many answers at once. Wait until one has finished."),
        "too_many_connections": _(
            "Too many connections are open just now. This page tries again by itself."
        ),
        "no_membership": _("You may no longer chat in this organisation. Load the page again."),
        "engine_lost": _("The model stopped while it was answering. Try again."),
        "log_lost": _("The model stopped while it was answering. Try again."),
        "log_trimmed": _("The model stopped while it was answering. Try again."),
        "log_expired": _("The rest of this answer is no longer kept. Try again."),
        "generation_not_found": _("This answer is no longer kept. Try again."),
        "generation_failed": _("The model could not finish this answer. Try again."),
        "service_unavailable": _("The platform is not reachable just now. Try again in a moment."),
        "internal_error": _("Something went wrong on our side. Try again."),
    }
