"""`/v1/`: parse, authenticate, admit, stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from inference.messages import Finished
from inference.pipeline.admission import Admission, Admitted
from inference.services import catalog, generations
from kernel.clock import SystemClock
from kernel.database import database
from kernel.errors import InternalError, NotFound
from streaming import answer, sse
from streaming.answer import Frame
from streaming.openai import requests, responses
from streaming.openai.requests import ChatCompletionRequest
from tenants.principal import Principal
from tenants.services.keys import authenticate_key
from web.errors import api_view, as_platform_error

CLOCK = SystemClock()
# Proxies give up on a silent connection after 30 to 60 seconds.
HEARTBEAT_S = 10


@api_view("GET")
async def models(request: HttpRequest) -> HttpResponseBase:
    await _authenticate(request)
    offered = [responses.model(target) for target in await catalog.targets()]
    return JsonResponse({"object": "list", "data": offered})


@api_view("GET")
async def model(request: HttpRequest, name: str) -> HttpResponseBase:
    await _authenticate(request)
    return JsonResponse(responses.model(await catalog.target(name)))


@api_view("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    principal = await _authenticate(request)
    asked = requests.parse(request.body)
    admitted = await generations.admit(_admission(asked, principal), CLOCK)
    response = await (_streamed if asked.stream else _whole)(asked, admitted)
    response.headers["X-Generation-Id"] = admitted.generation_id
    return response


@api_view("GET", "POST", "PUT", "PATCH", "DELETE")
async def unknown(request: HttpRequest) -> HttpResponseBase:
    await _authenticate(request)
    raise NotFound(f"There is no {request.method} {request.path[:200]}.", code="unknown_url")


async def _authenticate(request: HttpRequest) -> Principal:
    authorization = request.headers.get("Authorization", "")
    return await database(authenticate_key, authorization, now=CLOCK.now())


def _admission(asked: ChatCompletionRequest, principal: Principal) -> Admission:
    return Admission(
        principal=principal,
        model=asked.model,
        messages=asked.template_messages(),
        sampling=asked.sampling(),
        max_tokens=asked.answer_tokens,
        now=CLOCK.now(),
    )


async def _whole(asked: ChatCompletionRequest, admitted: Admitted) -> HttpResponseBase:
    text = []
    async with answer.reading(admitted, CLOCK, transport="json") as frames:
        async for frame in frames:
            if frame is None:
                continue
            text.append(frame.text)
            if isinstance(frame.final, Finished):
                body = responses.completion(admitted, "".join(text), frame.final)
                return JsonResponse(body)
    raise InternalError("The answer ended without an end.")


async def _streamed(asked: ChatCompletionRequest, admitted: Admitted) -> HttpResponseBase:
    include_usage = asked.stream_options is not None and asked.stream_options.include_usage
    events = _events(admitted, include_usage=include_usage)
    # Begun here, so that it is closed, and the generation ended, even if nobody ever reads on.
    first = await anext(events)
    return sse.EventStream(first, events)


async def _events(admitted: Admitted, *, include_usage: bool) -> AsyncGenerator[bytes, None]:
    async with answer.reading(admitted, CLOCK, transport="sse") as frames:
        yield sse.event(responses.chunk(admitted, {"role": "assistant", "content": ""}))
        quiet_s = 0
        try:
            async for frame in frames:
                quiet_s = 0 if frame else quiet_s + 1
                if frame is None:
                    if quiet_s % HEARTBEAT_S == 0:
                        yield sse.comment("waiting")
                    continue
                for event in _frame_events(admitted, frame, include_usage=include_usage):
                    yield event
        except Exception as error:  # noqa: BLE001 - told to the client, and logged where unforeseen
            yield sse.error_event(as_platform_error(error))


def _frame_events(admitted: Admitted, frame: Frame, *, include_usage: bool) -> list[bytes]:
    events = []
    if frame.text:
        delta = responses.chunk(admitted, {"content": frame.text})
        events.append(sse.event(delta, seq=frame.seq))
    if isinstance(frame.final, Finished):
        reason = responses.FINISH_REASONS[frame.final.finish_reason]
        last = responses.chunk(admitted, {}, finish_reason=reason)
        events.append(sse.event(last, seq=frame.seq))
        if include_usage:
            events.append(sse.event(responses.usage_chunk(admitted, frame.final.usage)))
        events.append(sse.DONE)
    return events
