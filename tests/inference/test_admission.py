from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pytest_django.fixtures import Settings
from redis.exceptions import ConnectionError as RedisAway

from inference import queue, redis_keys, registry
from inference.engine.fake import FakeEngine
from inference.engine.protocol import EngineRequest, Sampling, Unsupported
from inference.messages import QueuedRequest, ReplicaRecord
from inference.models import EngineKind, Generation, Route, State
from inference.pipeline.admission import Admission
from inference.services import catalog, estimates, generations, replays
from kernel.database import database
from kernel.errors import (
    BadRequest,
    ContextLengthExceeded,
    ModelNotFound,
    PermissionDenied,
    PlatformError,
    QueueFull,
    Unavailable,
)
from kernel.redis import Client
from tenants import scope
from tenants.principal import Principal
from tenants.priority import PriorityClass
from tests.inference.making import START, Records, StoppedClock

CLOCK = StoppedClock()
RECORD = ReplicaRecord("engine", "inc_a", "rel_a", "fake", "ready")
NINE = Sampling(1, min_tokens=9)
ADA = Principal("ten_a", "service_account", "sva_a", key_id="key_a")


def asking(text: str = "hi there", **fields: Any) -> Admission:
    """For the release of `records`, whose context is 64 tokens; the role is a token as well."""
    values: dict[str, Any] = {
        "principal": ADA,
        "model": "fake",
        "messages": [{"role": "user", "content": text}],
        "sampling": Sampling(max_tokens=1, temperature=0.5),
        "max_tokens": None,
        "now": START,
    }
    return Admission(**values | fields)


def every_generation() -> list[Generation]:
    with scope.whole_platform():
        return list(Generation.objects.all())


async def test_what_is_admitted_is_recorded_queued_and_told(
    redis: Client, records: Records
) -> None:
    admission = asking(max_tokens=5, conversation_id="cnv_a")
    admitted = await generations.admit(admission, CLOCK)
    assert (admitted.tenant_id, admitted.model, admitted.prompt_tokens) == ("ten_a", "fake", 3)
    (found,) = await database(every_generation)
    assert (found.id, found.tenant_id) == (admitted.generation_id, "ten_a")
    assert (found.principal, found.key_id) == ("service_account:sva_a", "key_a")
    assert (found.state, found.prompt_tokens, found.conversation_id) == ("open", 3, "cnv_a")
    taken = await queue.claim(redis, "rel_a", "inc_a")
    assert taken is not None
    assert taken.engine_request.cache_salt == "ten_a"
    assert taken.engine_request.sampling == Sampling(max_tokens=5, temperature=0.5)


@pytest.mark.parametrize(
    ("words", "max_tokens", "given"),
    [(3, None, 30), (50, None, 13), (3, 60, 60), (62, None, 1), (62, 1, 1)],
)
async def test_an_answer_gets_what_was_asked_the_default_or_what_is_left(
    redis: Client, records: Records, settings: Settings, words: int, max_tokens: int, given: int
) -> None:
    settings.DEFAULT_MAX_TOKENS = 30
    admission = asking("word " * words, max_tokens=max_tokens)
    await generations.admit(admission, CLOCK)
    assert admission.request is not None
    assert admission.request.engine_request.sampling.max_tokens == given


@pytest.mark.parametrize(
    ("admission", "kind", "param"),
    [
        (asking(model="unknown"), ModelNotFound, "model"),
        (asking(model="fake\u0000"), ModelNotFound, "model"),
        (asking("word " * 63), ContextLengthExceeded, "messages"),
        (asking("x" * 64 * 16 + "x"), ContextLengthExceeded, "messages"),
        (asking("word", max_tokens=63), ContextLengthExceeded, "max_tokens"),
        (
            asking("word", sampling=Sampling(1, min_tokens=9), max_tokens=8),
            BadRequest,
            "min_tokens",
        ),
        (asking(messages=[]), BadRequest, "messages"),
        # The fake engine can't.
        (asking(sampling=Sampling(1, json_schema="{}")), BadRequest, "response_format"),
    ],
)
async def test_what_is_refused_leaves_nothing_behind(
    redis: Client, records: Records, admission: Admission, kind: type[PlatformError], param: str
) -> None:
    with pytest.raises(kind) as refused:
        await generations.admit(admission, CLOCK)
    assert type(refused.value) is kind
    assert refused.value.param == param
    assert await database(every_generation) == []
    assert await redis.keys("*") == []


@pytest.mark.parametrize("padding", [0, 2_000])
async def test_a_schema_that_does_not_compile_never_gets_to_an_engine(
    redis: Client, records: Records, padding: int
) -> None:
    """Short ones are compiled at once, long ones in a thread."""
    await database(served_by_vllm, records)
    schema = {"pattern": "((", "type": "string", "description": "x" * padding}
    with pytest.raises(BadRequest) as refused:
        await generations.admit(asking(sampling=Sampling(1, json_schema=json.dumps(schema))), CLOCK)
    assert (refused.value.code, refused.value.param) == ("invalid_schema", "response_format")
    assert "unclosed group" in refused.value.message
    assert await database(every_generation) == []
    assert await redis.keys("*") == []


def served_by_vllm(records: Records) -> None:
    release = records.route.release
    release.engine = EngineKind.VLLM
    release.save()
    catalog.forget()


def test_another_schema_is_another_request() -> None:
    """Where a route answers what can only have one answer with the one that it had."""
    digests = {
        replays.by_content("rel_a", EngineRequest("gen_a", [1], how, cache_salt="ten_a")).key_digest
        for how in (Sampling(1), Sampling(1, json_schema="{}"), Sampling(1, json_schema="true"))
    }
    assert len(digests) == 3


async def test_the_engines_that_are_asked_for_no_schema_are_those_that_say_so(
    redis: Client,
) -> None:
    engine = FakeEngine(ttft_s=0, itl_s=0)
    assert not engine.capabilities.grammar
    request = EngineRequest("gen_a", [1], Sampling(1, json_schema="{}"), cache_salt="ten_a")
    with pytest.raises(Unsupported):
        await anext(engine.submit(request))


async def test_a_route_that_was_switched_off_is_unknown(redis: Client, records: Records) -> None:
    def switch_off() -> None:
        Route.objects.update(is_active=False)

    await database(switch_off)
    catalog.forget()
    with pytest.raises(ModelNotFound):
        await generations.admit(asking(), CLOCK)


async def test_a_full_queue_settles_what_it_refused(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.QUEUE_LIMIT = 1
    await generations.admit(asking(), CLOCK)
    with pytest.raises(QueueFull):
        await generations.admit(asking(), CLOCK)
    found = {each.state: each for each in await database(every_generation)}
    assert found[State.FAILED].error_code == "queue_full"
    assert found[State.FAILED].output_tokens == 0
    assert set(found) == {State.OPEN, State.FAILED}


async def test_redis_away_settles_what_could_not_be_queued(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> int:
        raise RedisAway("gone")

    monkeypatch.setattr(queue, "enqueue", away)
    with pytest.raises(Unavailable) as refused:
        await generations.admit(asking(), CLOCK)
    assert refused.value.retry_after_s
    (found,) = await database(every_generation)
    assert (found.state, found.error_code) == (State.FAILED, "service_unavailable")


async def test_a_client_that_leaves_while_it_is_admitted_leaves_no_request_waiting(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued, enqueue = asyncio.Event(), queue.enqueue

    async def slow(redis: Client, request: QueuedRequest) -> int:
        place = await enqueue(redis, request)
        queued.set()
        await asyncio.sleep(3600)
        return place

    monkeypatch.setattr(queue, "enqueue", slow)
    admitting = asyncio.create_task(generations.admit(asking(), CLOCK))
    await queued.wait()
    admitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await admitting
    assert await redis.zcard(redis_keys.queue("rel_a")) == 0
    (found,) = await database(every_generation)
    assert found.state == State.CANCELLED


async def test_cancelling_what_waits_takes_it_out_and_settles_it_once(
    redis: Client, records: Records
) -> None:
    admitted = await generations.admit(asking(), CLOCK)
    await generations.cancel(admitted, CLOCK)
    await generations.cancel(admitted, CLOCK)
    assert await queue.claim(redis, "rel_a", "inc_a") is None
    (found,) = await database(every_generation)
    assert (found.state, found.output_tokens) == (State.CANCELLED, 0)


async def test_cancelling_what_a_lost_replica_runs_ends_it(redis: Client, records: Records) -> None:
    admitted = await generations.admit(asking(), CLOCK)
    await queue.claim(redis, "rel_a", "inc_a")
    await generations.cancel(admitted, CLOCK)
    (found,) = await database(every_generation)
    assert found.state == State.CANCELLED
    assert await queue.claim(redis, "rel_a", "inc_b") is None


async def test_cancelling_what_runs_tells_its_replica(redis: Client, records: Records) -> None:
    admitted = await generations.admit(asking(), CLOCK)
    await registry.renew(redis, RECORD, timeout_s=60)
    await queue.claim(redis, "rel_a", "inc_a")
    await generations.cancel(admitted, CLOCK)
    assert await redis.llen(redis_keys.control("inc_a")) == 1
    assert 0 < await redis.ttl(redis_keys.control("inc_a")) <= 60


def principal(**fields: Any) -> Principal:
    return Principal("ten_a", "service_account", "sva_a", key_id="key_a", **fields)


@pytest.mark.parametrize(
    ("asked", "fields", "served_as"),
    [
        (None, {}, "standard"),
        (None, {"default_priority": "batch"}, "batch"),
        ("batch", {}, "batch"),
        ("interactive", {}, "interactive"),
        ("standard", {"highest_priority": "standard"}, "standard"),
    ],
)
async def test_it_is_queued_in_the_class_asked_for_with_its_tenants_weight(
    redis: Client,
    records: Records,
    asked: PriorityClass | None,
    fields: dict[str, Any],
    served_as: str,
) -> None:
    asker = principal(weight=2.5, **fields)
    admitted = await generations.admit(asking(principal=asker, priority=asked), CLOCK)
    request = await queue.waiting(redis, admitted.generation_id)
    assert request is not None
    assert (request.priority_class, request.weight) == (served_as, 2.5)


async def test_a_class_that_is_not_allowed_is_refused_and_leaves_nothing(
    redis: Client, records: Records
) -> None:
    asker = principal(highest_priority="standard")
    with pytest.raises(PermissionDenied, match="the highest allowed is standard") as refused:
        await generations.admit(asking(principal=asker, priority="interactive"), CLOCK)
    assert (refused.value.code, refused.value.param) == ("priority_not_allowed", "service_tier")
    assert await redis.keys("nehir:*") == []
    assert await database(every_generation) == []


async def test_who_is_refused_is_told_when_to_come_back_as_the_forecast_says(
    redis: Client, records: Records, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def foreseen(redis: Client, release_id: str, tenant_id: str) -> int | None:
        assert (release_id, tenant_id) == ("rel_a", "ten_a")
        return answers.pop()

    answers = [None, 42]
    monkeypatch.setattr(estimates, "retry_after_s", foreseen)
    settings.QUEUE_LIMIT = 0
    for told in (42, 5):
        with pytest.raises(QueueFull) as refused:
            await generations.admit(asking(), CLOCK)
        assert refused.value.retry_after_s == told
