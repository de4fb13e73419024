"""`/v1/`: parse, authenticate, admit, stream."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from inference.messages import Finished
from inference.pipeline.admission import Admission, Admitted
from inference.services import catalog, generations, replays
from inference.services.replays import Identity
from kernel.clock import SystemClock
from kernel.errors import BadRequest, InternalError, NotFound
from streaming import answer, resuming
from streaming.answer import Stopwatch
from streaming.draining import Drain
from streaming.openai import requests, responses, stream
from streaming.openai.authentication import authenticate
from streaming.openai.requests import ChatCompletionRequest, StreamOptions
from streaming.openai.stream import Begun, Wanted
from tenants.access import Access
from tenants.authorization import may_use
from tenants.principal import Principal
from web.errors import api_view

CLOCK = SystemClock()
MAX_IDEMPOTENCY_KEY = 255


@api_view("GET")
async def models(request: HttpRequest) -> HttpResponseBase:
    principal = (await authenticate(request)).principal
    targets = [each for each in await catalog.targets() if may_use(principal, each.name)]
    return JsonResponse({"object": "list", "data": list(map(responses.model, targets))})


@api_view("GET")
async def model(request: HttpRequest, name: str) -> HttpResponseBase:
    (await authenticate(request)).need_model(name)
    return JsonResponse(responses.model(await catalog.target(name)))


@api_view("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    access = await authenticate(request, scope="chat")
    catalog.keep_fresh()
    asked = requests.parse(request.body)
    admission = _admission(asked, access.principal, _identity(request))
    drain = Drain.of(request)
    if asked.stream:
        return await _streamed(asked, admission, access, drain)
    return await _whole(admission, access, drain)


@api_view("GET", "DELETE")
async def generation(request: HttpRequest, generation_id: str) -> HttpResponseBase:
    principal = (await authenticate(request, scope="chat")).principal
    if request.method == "DELETE":
        await generations.cancel(await generations.find(principal, generation_id), CLOCK)
    return JsonResponse(await resuming.state_of(principal, generation_id))


@api_view("GET")
async def generation_events(request: HttpRequest, generation_id: str) -> HttpResponseBase:
    access = await authenticate(request, scope="chat")
    position = requests.position(request)

    async def begin() -> Begun:
        resumption = await resuming.resume(access.principal, generation_id, position)
        access.need_model(resumption.admitted.model)
        return resumption.admitted, resumption.after

    wanted = Wanted(include_usage=True, include_queue=True, include_gaps=True)
    response, _ = await stream.respond(access, begin, CLOCK, wanted, Drain.of(request))
    return response


@api_view("GET", "POST", "PUT", "PATCH", "DELETE")
async def unknown(request: HttpRequest) -> HttpResponseBase:
    await authenticate(request)
    raise NotFound(f"There is no {request.method} {request.path[:200]}.", code="unknown_url")


def _identity(request: HttpRequest) -> Identity | None:
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise BadRequest(
            f"An Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY} characters.",
            param="Idempotency-Key",
        )
    return replays.by_key(key, request.body)


def _admission(
    asked: ChatCompletionRequest, principal: Principal, identity: Identity | None
) -> Admission:
    # Without an identity nobody could come back for a whole answer.
    nobody_returns = not asked.stream and identity is None
    options = asked.stream_options
    return Admission(
        principal=principal,
        model=asked.model,
        messages=asked.template_messages(),
        sampling=asked.sampling(),
        max_tokens=asked.answer_tokens,
        now=CLOCK.now(),
        high_water_tokens=options.high_water_tokens if options else None,
        detached="cancel" if nobody_returns else None,
        priority=asked.priority,
        identity=identity,
    )


async def _whole(admission: Admission, access: Access, drain: Drain) -> HttpResponseBase:
    admitted = await generations.admit(admission, CLOCK)
    body = await _read_whole(admitted, access, drain)
    return _marked(JsonResponse(body), admission, admitted)


async def _read_whole(admitted: Admitted, access: Access, drain: Drain) -> dict[str, Any]:
    text, stopwatch = [], Stopwatch(admitted, CLOCK, "json")
    reading_it = answer.reading(admitted, CLOCK, transport="json", drain=drain, access=access)
    async with reading_it as reading:
        async for frame in reading:
            if frame is None:
                continue
            stopwatch.saw(frame)
            text.append(frame.text)
            reading.has_read(frame.seq)
            if isinstance(frame.final, Finished):
                return responses.completion(admitted, "".join(text), frame.final)
    raise InternalError("The answer ended without an end.")


async def _streamed(
    asked: ChatCompletionRequest, admission: Admission, access: Access, drain: Drain
) -> HttpResponseBase:
    async def begin() -> Begun:
        return await generations.admit(admission, CLOCK), None

    options = asked.stream_options or StreamOptions()
    wanted = Wanted(include_usage=options.include_usage, include_queue=options.include_queue)
    response, admitted = await stream.respond(access, begin, CLOCK, wanted, drain)
    return response if admitted is None else _marked(response, admission, admitted)


def _marked(
    response: HttpResponseBase, admission: Admission, admitted: Admitted
) -> HttpResponseBase:
    response.headers["X-Generation-Id"] = admitted.generation_id
    if admitted.generation_id != admission.generation_id:
        response.headers["X-Replayed"] = "true"
    return response
