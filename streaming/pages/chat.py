"""The chat page: empty for a new conversation, or with one conversation's messages."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
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
from streaming.services.running import RunningAnswer, running_answers

SOCKET_PATH = "/ws/chat/"
ID_PLACE = "ID"


@require_safe
@for_members
def new_chat(request: HttpRequest, member: Member) -> HttpResponse:
    return _page(request, member, None, running_answers(member.principal))


@require_safe
@for_members
def conversation(request: HttpRequest, member: Member, conversation_id: str) -> HttpResponse:
    # First: an answer that ends meanwhile is then among the messages, not missing from both.
    running = running_answers(member.principal)
    try:
        transcript = conversations.read(principal=member.principal, conversation_id=conversation_id)
    except NotFound as error:
        raise Http404(error.message) from error
    return _page(request, member, transcript, running)


@require_safe
@for_members
def running(request: HttpRequest, member: Member) -> HttpResponse:
    """Which conversations are being answered, for the sidebar's marks."""
    found = running_answers(member.principal)
    return JsonResponse({"running": {name: each.state for name, each in found.items()}})


def _page(
    request: HttpRequest,
    member: Member,
    transcript: Transcript | None,
    running: dict[str, RunningAnswer],
) -> HttpResponse:
    # One more than is listed tells whether there are more.
    recent = conversations.recent(principal=member.principal, limit=sidebar.LISTED + 1)
    current = transcript.conversation if transcript else None
    days = sidebar.days(
        recent[: sidebar.LISTED],
        zone=sidebar.zone_of(request),
        now=timezone.now(),
        current=current.id if current else None,
        running=running,
    )
    context = {
        "member": member,
        "days": days,
        "has_older": len(recent) > sidebar.LISTED,
        "conversation": current,
        "chat_messages": transcript.messages if transcript else [],
        "running": _in_the_making(transcript, running),
        "settings": _settings(current.id if current else None),
        "id_place": ID_PLACE,
    }
    return render(request, "chat/chat.html", context)


def _in_the_making(
    transcript: Transcript | None, running: dict[str, RunningAnswer]
) -> RunningAnswer | None:
    """The answer that this page is to go on with."""
    if transcript is None:
        return None
    found = running.get(transcript.conversation.id)
    kept = {message.generation_id for message in transcript.messages}
    return found if found and found.generation_id not in kept else None


def _settings(conversation_id: str | None) -> dict[str, object]:
    """What the page's JavaScript needs to know."""
    return {
        "socket": SOCKET_PATH,
        "conversation": conversation_id,
        "urls": {
            "login": reverse(settings.LOGIN_URL),
            "newChat": reverse("chat"),
            "running": reverse("running_answers"),
            "conversation": reverse("conversation", args=[ID_PLACE]),
        },
        "texts": chat_texts(),
    }
