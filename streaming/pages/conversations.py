"""What the sidebar asks for by POST: another title, a deletion.

The page stays where it is, so that an answer in flight goes on.
"""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from kernel.errors import BadRequest, NotFound
from streaming.pages.member import Member, for_members
from streaming.services import conversations
from web.errors import error_response


@require_POST
@for_members
def rename(request: HttpRequest, member: Member, conversation_id: str) -> HttpResponse:
    try:
        renamed = conversations.rename(
            principal=member.principal,
            conversation_id=conversation_id,
            title=request.POST.get("title", ""),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404(error.message) from error
    except BadRequest as error:
        return error_response(error)
    return JsonResponse({"id": renamed.id, "title": renamed.title})


@require_POST
@for_members
def delete(request: HttpRequest, member: Member, conversation_id: str) -> HttpResponse:
    try:
        conversations.delete(
            principal=member.principal, conversation_id=conversation_id, now=timezone.now()
        )
    except NotFound as error:
        raise Http404(error.message) from error
    return HttpResponse(status=204)
