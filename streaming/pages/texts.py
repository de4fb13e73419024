"""Texts that the page's JavaScript shows, translated on the server and handed over as JSON.

Words in braces are filled in by the JavaScript.
"""

from __future__ import annotations

from django.utils.translation import gettext as _


def chat_texts() -> dict[str, dict[str, str]]:
    """Groups of texts by where they appear, in the language of the request."""
    return {
        "connection": {
            "connecting": _("Connecting…"),
            "open": _("Connected"),
            "closed": _("Connection lost. Reconnecting…"),
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
            "position": _("Place {position} in the queue"),
            "length": _("Cut off: the answer reached its length limit."),
            "stopped": _("Stopped."),
            "interrupted": _("Connection lost; the answer was interrupted."),
            "failed": _("The answer failed before it was finished."),
            "unanswered": _("This message has no answer."),
            "speed": _("{tokens} tokens · {rate} tokens/s"),
            "announced": _("The answer is finished."),
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
        "no_membership": _("You may no longer chat in this organisation. Load the page again."),
        "engine_lost": _("The model stopped while it was answering. Try again."),
        "log_lost": _("The model stopped while it was answering. Try again."),
        "generation_failed": _("The model could not finish this answer. Try again."),
        "service_unavailable": _("The platform is not reachable just now. Try again in a moment."),
        "internal_error": _("Something went wrong on our side. Try again."),
    }
