"""The page, what it polls, and the two buttons. All of it for operators alone.

Polled, not pushed: what is shown has no one publisher (queues belong to nobody, and a lost replica
says nothing), a socket's group can't be joined while Redis is away, which is when operators look,
and each poll asks anew who is asking.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any

import msgspec
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.replicas import rows
from console.replicas.supervision import EngineProcess, NoSupervisor, NotDone, supervision
from console.replicas.texts import settings
from console.scope import access_of, actor_of
from inference.models import Release
from kernel.database import database, writing
from tenants.audit_actions import AuditAction
from tenants.models import AuditOutcome
from tenants.permissions import Action
from tenants.services.audit import Target, record

log = logging.getLogger(__name__)

View = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponseBase]]

DONE = {
    AuditAction.REPLICA_DRAIN: gettext_noop("Drained replica %(name)s."),
    AuditAction.REPLICA_RESTART: gettext_noop("Restarted replica %(name)s."),
}


def only(action: Action) -> Callable[[View], View]:
    """Who isn't in the admin goes to its login; who may not do this is refused."""

    def decorate(view: View) -> View:
        @never_cache
        @wraps(view)
        async def checked(request: HttpRequest) -> HttpResponseBase:
            if access_of(request) is None:
                return redirect_to_login(reverse("admin:replicas"), reverse("admin:login"))
            _require(request, action)
            return await view(request)

        return checked

    return decorate


def _require(request: HttpRequest, action: Action) -> None:
    """Raises Django's PermissionDenied."""
    access = access_of(request)
    if access is None or not access.may(action):
        raise PermissionDenied


def page(request: HttpRequest, *, context: dict[str, Any]) -> HttpResponse:
    """context: the site's own"""
    _require(request, Action.REPLICA_VIEW)
    here = {"title": gettext("Replicas"), "page_settings": settings()}
    return TemplateResponse(request, "console/replicas.html", {**context, **here})


@require_GET
@only(Action.REPLICA_VIEW)
async def state(request: HttpRequest) -> HttpResponse:
    found = msgspec.json.encode(await rows.state())
    return HttpResponse(found, content_type="application/json")


@require_POST
@only(Action.REPLICA_MANAGE)
async def drain(request: HttpRequest) -> HttpResponse:
    return await _begin(request, supervision().drain, AuditAction.REPLICA_DRAIN)


@require_POST
@only(Action.REPLICA_MANAGE)
async def restart(request: HttpRequest) -> HttpResponse:
    stop_first = request.POST.get("stop_first") == "yes"
    verb = partial(supervision().restart, stop_first=stop_first)
    return await _begin(request, verb, AuditAction.REPLICA_RESTART)


async def _begin(
    request: HttpRequest, verb: Callable[[str], None], action: AuditAction
) -> HttpResponse:
    """Have the supervisor begin; how it goes on, the page shows."""
    name, actor = request.POST.get("replica", ""), actor_of(request)
    try:
        engine = await asyncio.to_thread(_engine, name)
        await asyncio.to_thread(verb, name)
    except NoSupervisor:
        await database(_note_refusal, actor, action, name, "no_supervisor")
        words = gettext(
            "No supervisor runs here, so replicas can only be drained and restarted where they run."
        )
        return _refused(words)
    except NotDone as why:
        log.warning("%s asked for %s of %r: %s", actor, action.value, name, why)
        await database(_note_refusal, actor, action, name, str(why))
        return _refused(gettext("It was refused: %(reason)s") % {"reason": why})
    log.info("By %s: %s", actor, DONE[action] % {"name": name})
    await database(_note, actor, action, engine)
    return HttpResponse(status=202)


def _engine(name: str) -> EngineProcess:
    """Nothing but an engine: the socket would drain web processes as well."""
    for engine in supervision().state().engines:
        if engine.name == name:
            return engine
    raise NotDone(f"There is no replica {name[:100]!r} here.")


def _refused(words: str) -> HttpResponse:
    return JsonResponse({"error": {"message": words}}, status=409)


def _note(actor: User, action: AuditAction, engine: EngineProcess) -> None:
    """In the admin's log, on its release where that is still there, and in the audit log."""
    with writing():
        release = Release.objects.filter(name=engine.release).first()
        LogEntry.objects.create(
            user=actor,
            content_type=ContentType.objects.get_for_model(Release) if release else None,
            object_id=release.pk if release else None,
            object_repr=f"{engine.release}: {engine.name}"[:200],
            action_flag=CHANGE,
            change_message=gettext(DONE[action]) % {"name": engine.name},
        )
        record(
            action,
            actor=actor,
            now=timezone.now(),
            tenant_id=None,
            target=Target("replica", engine.name),
            after={"release": engine.release},
        )


def _note_refusal(actor: User, action: AuditAction, name: str, reason: str) -> None:
    with writing():
        record(
            action,
            actor=actor,
            now=timezone.now(),
            tenant_id=None,
            target=Target("replica", name),
            reason=reason,
            outcome=AuditOutcome.REFUSED,
        )
