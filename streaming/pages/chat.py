"""The chat page: empty for a new conversation, or with one conversation's messages."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from kernel.errors import NotFound
from streaming.pages import sidebar
from streaming.pages.member import Member, for_members
from streaming.pages.texts import chat_texts
from streaming.services import conversations
from streaming.services.conversations import Transcript

SOCKET_PATH = "/ws/chat/"
ID_PLACE = "ID"


@require_safe
@for_members
def new_chat(request: HttpRequest, member: Member) -> HttpResponse:
    return _page(request, member, None)


@require_safe
@for_members
def conversation(request: HttpRequest, member: Member, conversation_id: str) -> HttpResponse:
    try:
        transcript = conversations.read(principal=member.principal, conversation_id=conversation_id)
    except NotFound as error:
        raise Http404(error.message) from error
    return _page(request, member, transcript)


def _page(request: HttpRequest, member: Member, transcript: Transcript | None) -> HttpResponse:
    # One more than is listed tells whether there are more.
    recent = conversations.recent(principal=member.principal, limit=sidebar.LISTED + 1)
    days = sidebar.days(recent[: sidebar.LISTED], zone=sidebar.zone_of(request), now=timezone.now())
    current = transcript.conversation if transcript else None
    context = {
        "member": member,
        "days": days,
        "has_older": len(recent) > sidebar.LISTED,
        "conversation": current,
        "chat_messages": transcript.messages if transcript else [],
        "settings": _settings(current.id if current else None),
        "id_place": ID_PLACE,
    }
    return render(request, "chat/chat.html", context)


def _settings(conversation_id: str | None) -> dict[str, object]:
    """What the page's JavaScript needs to know."""
    return {
        "socket": SOCKET_PATH,
        "conversation": conversation_id,
        "urls": {
            "login": reverse(settings.LOGIN_URL),
            "newChat": reverse("chat"),
            "conversation": reverse("conversation", args=[ID_PLACE]),
        },
        "texts": chat_texts(),
    }
