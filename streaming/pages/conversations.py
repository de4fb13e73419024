"""What the sidebar asks for by POST: another title, a deletion.

The page stays where it is, so that an answer in flight goes on.
"""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_POST

from kernel.errors import BadRequest, NotFound
from streaming.pages.visitor import Visitor, for_members
from streaming.services import conversations


@require_POST
@for_members
def rename(request: HttpRequest, visitor: Visitor, conversation_id: str) -> HttpResponse:
    try:
        renamed = conversations.rename(
            principal=visitor.principal,
            conversation_id=conversation_id,
            title=request.POST.get("title", ""),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404(error.message) from error
    except BadRequest as error:
        return JsonResponse({"error": {"code": error.code, "message": error.message}}, status=400)
    return JsonResponse({"id": renamed.id, "title": renamed.title})


@require_POST
@for_members
def delete(request: HttpRequest, visitor: Visitor, conversation_id: str) -> HttpResponse:
    try:
        conversations.delete(
            principal=visitor.principal, conversation_id=conversation_id, now=timezone.now()
        )
    except NotFound as error:
        raise Http404(error.message) from error
    return HttpResponse(status=204)
