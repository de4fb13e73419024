"""The stages of admission, in order. A new one goes into STAGES where what it needs is there and
what it guards is not yet done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from django.conf import settings

from inference import queue
from inference.engine import grammar
from inference.engine.chat_template import Message, TemplateRefused
from inference.engine.protocol import EngineRequest, Sampling
from inference.engine.tokenizer import FakePromptRenderer, ModelPromptRenderer, PromptRenderer
from inference.messages import Failed, QueuedRequest, Usage
from inference.models import EngineKind, Generation
from inference.pipeline.admission import Admission
from inference.services import catalog, estimates, replays
from inference.services.catalog import Target
from inference.services.settlement import Outcome, settle
from kernel.database import database, writing
from kernel.errors import (
    BadRequest,
    ContextLengthExceeded,
    PlatformError,
    QueueFull,
    Unavailable,
)
from kernel.group_commit import GroupCommit
from kernel.loops import one_per_loop
from kernel.redis import OUTAGE, client, unavailable
from tenants import authorization, scope
from tenants.priority import chosen

Stage = Callable[[Admission], Awaitable[None]]

# A character is at least a quarter of a token in any tokenizer at hand, usually far more; text
# beyond is refused unread.
MAX_CHARACTERS_PER_TOKEN = 16


# Compiling a schema of so many characters takes the event loop two milliseconds at most.
CHECKED_AT_ONCE = 1_000
# Tokenizing runs at about 1 MB/s: this many characters take the event loop two milliseconds.
RENDERED_AT_ONCE = 2_000
# Releases are immutable, so what renders their prompts is too.
_renderers: dict[str, PromptRenderer] = {}


async def check_priority(admission: Admission) -> None:
    principal = admission.principal
    asked = admission.priority or principal.default_priority
    admission.priority = chosen(asked, highest=principal.highest_priority)


async def check_model(admission: Admission) -> None:
    """Before it is looked for: who may not use it isn't told whether it is there."""
    authorization.check_model(admission.principal, admission.model)


async def resolve_route(admission: Admission) -> None:
    admission.target = await catalog.target(admission.model)


async def check_schema(admission: Admission) -> None:
    """What the answer has to be a value of compiles, and the model's engine can keep it to that."""
    schema, target = admission.sampling.json_schema, _target(admission)
    if schema is None:
        return
    if target.engine == EngineKind.FAKE:
        raise BadRequest(
            f"The model {target.name!r} can't keep its answers to a format.",
            param="response_format",
            code="unsupported_value",
        )
    try:
        if len(schema) <= CHECKED_AT_ONCE:
            grammar.check(schema)
        else:
            await asyncio.to_thread(grammar.check, schema)
    except grammar.GrammarRefused as error:
        raise BadRequest(str(error), param="response_format", code="invalid_schema") from error


async def render_prompt(admission: Admission) -> None:
    target = _target(admission)
    characters = sum(len(message["content"]) for message in admission.messages)
    if characters > target.context_tokens * MAX_CHARACTERS_PER_TOKEN:
        raise _too_long(target, f"about {characters} characters")
    try:
        rendered = await _rendered(target, admission.messages, characters)
    except FileNotFoundError as error:
        raise Unavailable(f"The model {target.name!r} is still being prepared.") from error
    except TemplateRefused as error:
        raise BadRequest(f"The model refuses these messages: {error}", param="messages") from error
    if not rendered:
        raise BadRequest("The prompt is empty.", param="messages")
    admission.prompt_token_ids = rendered


async def limit_tokens(admission: Admission) -> None:
    """Prompt and answer have to fit the context; an answer without a limit gets the default, or
    what is left.
    """
    target, prompt = _target(admission), len(admission.prompt_token_ids)
    left = target.context_tokens - prompt
    if left < 1:
        raise _too_long(target, f"{prompt} tokens")
    wanted = admission.max_tokens
    if wanted is not None and wanted > left:
        raise ContextLengthExceeded(
            f"This model's context is {target.context_tokens} tokens. The prompt has {prompt} and "
            f"{wanted} were asked for the answer. Ask for at most {left}.",
            param="max_tokens",
        )
    max_tokens = min(settings.DEFAULT_MAX_TOKENS, left) if wanted is None else wanted
    if admission.sampling.min_tokens > max_tokens:
        raise BadRequest(
            f"min_tokens is more than the {max_tokens} tokens that the answer may have.",
            param="min_tokens",
        )
    admission.sampling = msgspec.structs.replace(admission.sampling, max_tokens=max_tokens)


async def record(admission: Admission) -> None:
    target = _target(admission)
    admission.request = QueuedRequest(
        tenant_id=admission.principal.tenant_id,
        release_id=target.release_id,
        engine_request=EngineRequest(
            generation_id=admission.generation_id,
            prompt_token_ids=admission.prompt_token_ids,
            sampling=admission.sampling,
            cache_salt=admission.principal.tenant_id,
        ),
        admitted_at=admission.now.timestamp(),
        high_water_tokens=_high_water(admission),
        detached=admission.detached or target.detached,
        priority_class=admission.priority or admission.principal.default_priority,
        weight=admission.principal.weight,
    )
    if admission.identity is None and target.replays and has_one_answer(admission.sampling):
        request = admission.request.engine_request
        admission.identity = replays.by_content(target.release_id, request)
    if admission.identity is None:
        await _recording()(admission)
    else:
        await database(_record_once, admission)


def has_one_answer(sampling: Sampling) -> bool:
    return sampling.temperature == 0 or sampling.seed is not None


def _high_water(admission: Admission) -> int:
    """The least of what the platform, the tenant and the client allow."""
    given = (admission.principal.high_water_tokens, admission.high_water_tokens)
    return min([settings.HIGH_WATER_TOKENS, *(mark for mark in given if mark is not None)])


@one_per_loop
def _recording() -> GroupCommit[Admission, None]:
    return GroupCommit(_record_all)


def _record_all(admissions: Sequence[Admission]) -> list[None]:
    with scope.whole_platform(), writing():
        Generation.objects.bulk_create(map(_generation, admissions))
    return [None] * len(admissions)


def _record_once(admission: Admission) -> None:
    """Raises Replayed where another generation is the answer already."""
    assert admission.identity is not None  # noqa: S101 - why this is called
    principal = admission.principal
    with scope.tenant(principal.tenant_id), writing():
        replays.claim(admission.identity, principal, admission.generation_id, now=admission.now)
        _generation(admission).save(force_insert=True)


def _generation(admission: Admission) -> Generation:
    target = _target(admission)
    return Generation(
        id=admission.generation_id,
        tenant_id=admission.principal.tenant_id,
        principal=admission.principal.name,
        key_id=admission.principal.key_id or "",
        conversation_id=admission.conversation_id,
        route_id=target.route_id,
        release_id=target.release_id,
        prompt_tokens=len(admission.prompt_token_ids),
        created_at=admission.now,
    )


async def enqueue(admission: Admission) -> None:
    assert admission.request is not None  # noqa: S101 - set by `record`, which runs before
    try:
        admission.queue_place = await queue.enqueue(client(), admission.request)
    except PlatformError as error:
        await _undo_record(admission, error)
        if isinstance(error, QueueFull):
            error.retry_after_s = await _until_room(admission) or error.retry_after_s
        raise
    except OUTAGE as error:
        await _undo_record(admission, unavailable())
        raise unavailable() from error


async def _until_room(admission: Admission) -> int | None:
    try:
        return await estimates.retry_after_s(
            client(), _target(admission).release_id, admission.principal.tenant_id
        )
    except OUTAGE:
        return None


async def _undo_record(admission: Admission, error: PlatformError) -> None:
    usage = Usage(prompt_tokens=len(admission.prompt_token_ids), output_tokens=0)
    final = Failed(0, error.code, error.message, error.retryable, usage)
    outcome = Outcome(admission.principal.tenant_id, admission.generation_id, "", final)
    await database(settle, outcome, now=admission.now)


STAGES: tuple[Stage, ...] = (
    check_priority,
    check_model,
    resolve_route,
    check_schema,
    render_prompt,
    limit_tokens,
    record,
    enqueue,
)


def _target(admission: Admission) -> Target:
    assert admission.target is not None  # noqa: S101 - set by `resolve_route`, which runs first
    return admission.target


def _too_long(target: Target, length: str) -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"This model's context is {target.context_tokens} tokens; the messages have {length}.",
        param="messages",
    )


async def _rendered(target: Target, messages: list[Message], characters: int) -> list[int]:
    """A short prompt is rendered faster than a thread is woken; a long one would stop the loop."""
    renderer = _renderers.get(target.release_id)
    if renderer is None:
        renderer = await asyncio.to_thread(_renderer, target)
        _renderers[target.release_id] = renderer
    if characters <= RENDERED_AT_ONCE:
        return renderer.render(messages)
    return await asyncio.to_thread(renderer.render, messages)


def _renderer(target: Target) -> PromptRenderer:
    if target.engine == EngineKind.FAKE:
        return FakePromptRenderer()
    return ModelPromptRenderer(settings.MODEL_STORE / target.model_path)
