"""What a lost replica ran goes on from its log, once, and what it had ended is settled."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from pytest_django.fixtures import Settings

from inference import control, queue, redis_keys, registry, token_log
from inference.messages import (
    Cancel,
    Entry,
    Failed,
    Finished,
    Progress,
    QueuedRequest,
    ReplicaRecord,
    Started,
    Suspended,
    SuspendReason,
    Tokens,
    Usage,
)
from inference.models import Generation, State
from inference.services import checkpoints, settlement, takeover
from inference.services.checkpoints import Suspension
from inference.services.settlement import Outcome
from inference.token_log import Content, Write
from kernel.database import database
from kernel.redis import Client, connected
from tests.inference.making import START, Records, StoppedClock, entries, leased, request

CLOCK = StoppedClock()
RECORD = ReplicaRecord("engine", "inc_a", "rel_a", "fake", "ready")


async def running(redis: Client, records: Records, *, tokens: int = 0) -> QueuedRequest:
    """A generation that inc_a runs, with so many tokens in its log."""
    await registry.renew(redis, RECORD, timeout_s=60)
    asked = request()
    await database(records.open, asked)
    await leased(redis, "inc_a", asked)
    if tokens:
        entry = Tokens(tokens, "river " * tokens, (1,) * tokens, cached_tokens=2)
        assert await append(redis, asked, entry)
    return asked


async def append(redis: Client, asked: QueuedRequest, entry: Tokens | Suspended | Finished) -> bool:
    write = Write(asked.tenant_id, asked.generation_id, entry, asked.turn)
    return (await token_log.append(redis, "inc_a", [write]))[0]


async def lose(redis: Client) -> int:
    await registry.lose(redis, "inc_a")
    return await takeover.take_over(redis, CLOCK, {"inc_a"})


async def next_turn(redis: Client, incarnation: str = "inc_b") -> QueuedRequest:
    taken = await queue.claim(redis, "rel_a", incarnation)
    assert taken is not None
    return taken


def finished(seq: int) -> Finished:
    return Finished(seq, "", "stop", Usage(prompt_tokens=3, output_tokens=seq))


async def last(redis: Client, asked: QueuedRequest) -> Entry:
    return (await entries(redis, asked))[-1]


async def test_what_a_lost_replica_ran_goes_on_from_its_log(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=7)
    assert await lose(redis) == 1
    told = await last(redis, asked)
    assert told == Suspended(7, "", "engine_lost", Usage(3, 7, cached_tokens=2))
    assert not await redis.exists(redis_keys.lease(asked.generation_id))
    taken = await next_turn(redis)
    assert taken.progress == Progress([1] * 7, "river " * 7, cached_tokens=2)
    assert (taken.turn, taken.engines_lost, taken.admitted_at) == (1, 1, asked.admitted_at)
    assert await last(redis, asked) == Started("inc_b")
    assert (await database(records.of, asked)).state == State.OPEN
    assert await registry.lost(redis) == set()
    assert await redis.keys(redis_keys.running("*")) == [redis_keys.running("inc_b").encode()]


async def test_its_place_is_that_of_its_admission(redis: Client, records: Records) -> None:
    asked = msgspec.structs.replace(request(), admitted_at=time.time())
    await database(records.open, asked)
    await leased(redis, "inc_a", asked)
    for _ in range(3):
        await queue.enqueue(redis, request())
    assert await lose(redis) == 1
    assert await queue.place(redis, "rel_a", asked.generation_id) == 1


async def test_of_many_who_find_it_lost_one_takes_it_over(redis: Client, records: Records) -> None:
    asked = [await running(redis, records, tokens=count) for count in (0, 3, 5)]
    await registry.lose(redis, "inc_a")

    async def take() -> int:
        async with connected() as own:
            return await takeover.take_over(own, CLOCK, {"inc_a"})

    assert sum(await asyncio.gather(*(take() for _ in range(4)))) == 3
    taken = {each.generation_id: each for each in [await next_turn(redis) for _ in range(3)]}
    for each, count in zip(asked, (0, 3, 5), strict=True):
        assert (taken[each.generation_id].seq, taken[each.generation_id].turn) == (count, 1)
        kinds = [type(entry) for entry in await entries(redis, each)]
        assert kinds.count(Suspended) == 1
    assert await queue.claim(redis, "rel_a", "inc_b") is None


@pytest.mark.parametrize("taken_by", ["nobody", "inc_b", "inc_a"])
async def test_a_replica_that_comes_back_can_write_nothing(
    redis: Client, records: Records, taken_by: str
) -> None:
    """Even if the generation has come back to that very replica."""
    asked = await running(redis, records, tokens=2)
    await lose(redis)
    if taken_by != "nobody":
        await next_turn(redis, taken_by)
    written = await entries(redis, asked)
    suspended = Suspended(3, "", "detached", Usage(3, 3))
    for late in (Tokens(seq=3, text="late", token_ids=(1,)), finished(3), suspended):
        assert not await append(redis, asked, late)
    await registry.settled(redis, "inc_a", asked)
    assert await entries(redis, asked) == written
    held = await registry.unsettled(redis, taken_by)
    assert [each.turn for each in held] == ([] if taken_by == "nobody" else [1])


async def test_a_replica_that_was_only_late_keeps_what_it_runs(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=2)
    assert await takeover.take_over(redis, CLOCK, {"inc_a"}) == 0
    assert await append(redis, asked, Tokens(seq=3, text="on", token_ids=(1,)))
    assert await registry.unsettled(redis, "inc_a") == [asked]
    assert await lose(redis) == 1
    assert (await next_turn(redis)).seq == 3


async def test_what_it_takes_while_it_counts_as_lost_is_not_forgotten(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped for a while may claim before its next heartbeat."""
    await running(redis, records)
    await registry.lose(redis, "inc_a")
    late = request()
    await database(records.open, late)
    unsettled = registry.unsettled

    async def claimed_behind(redis: Client, incarnation: str) -> list[QueuedRequest]:
        found = await unsettled(redis, incarnation)
        await leased(redis, incarnation, late)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(registry, "unsettled", claimed_behind)
        assert await takeover.take_over(redis, CLOCK, {"inc_a"}) == 1
    assert await takeover.take_over(redis, CLOCK, await registry.lost(redis)) == 1
    assert {(await next_turn(redis)).turn for _ in range(2)} == {1}


async def test_what_it_appends_while_it_is_taken_over_goes_along(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await running(redis, records, tokens=2)
    content, behind = token_log.content, [Tokens(seq=3, text="late", token_ids=(9,))]

    async def appended_behind(redis: Client, tenant_id: str, generation_id: str) -> Content | None:
        found = await content(redis, tenant_id, generation_id)
        if behind:
            assert await append(redis, asked, behind.pop())
        return found

    monkeypatch.setattr(token_log, "content", appended_behind)
    assert await lose(redis) == 1
    taken = await next_turn(redis)
    assert taken.progress is not None
    assert (taken.progress.token_ids, taken.text) == ([1, 1, 9], "river river late")


async def test_an_answer_that_had_ended_is_settled_as_it_ended(
    redis: Client, records: Records, listeners: list[settlement.Listener]
) -> None:
    heard: list[tuple[str, str]] = []

    def listen(generation: Generation, outcome: Outcome) -> None:
        heard.append((generation.id, outcome.text))

    listeners.append(listen)
    asked = await running(redis, records, tokens=2)
    await append(redis, asked, finished(2))
    assert await lose(redis) == 1
    assert await lose(redis) == 0
    found = await database(records.of, asked)
    assert (found.state, found.finish_reason, found.output_tokens) == ("finished", "stop", 2)
    assert found.settled_at == START
    assert heard == [(asked.generation_id, "river river ")]


async def test_one_that_kills_its_engines_is_given_up(
    redis: Client, records: Records, settings: Settings
) -> None:
    settings.TAKEOVER_LIMIT = 2
    asked = await running(redis, records, tokens=7)
    for turn in range(2):
        assert await lose(redis) == 1
        assert (await next_turn(redis, "inc_a")).engines_lost == turn + 1
    assert await lose(redis) == 1
    end = await last(redis, asked)
    assert isinstance(end, Failed)
    assert (end.code, end.seq, end.retryable) == ("engine_lost", 7, True)
    found = await database(records.of, asked)
    assert (found.state, found.error_code, found.output_tokens) == ("failed", "engine_lost", 7)
    assert await queue.claim(redis, "rel_a", "inc_b") is None


async def test_one_whose_beginning_is_gone_ends_and_says_why(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=2)
    await append(redis, asked, Tokens(seq=4, text="stone bank ", token_ids=(3, 4)))
    log = redis_keys.log(asked.tenant_id, asked.generation_id)
    await redis.xtrim(log, maxlen=1, approximate=False)
    assert await lose(redis) == 1
    end = await last(redis, asked)
    assert isinstance(end, Failed)
    assert (end.code, end.usage.output_tokens) == ("log_trimmed", 4)
    assert (await database(records.of, asked)).error_code == "log_trimmed"


async def test_one_whose_log_is_gone_is_settled_as_lost(redis: Client, records: Records) -> None:
    asked = await running(redis, records)
    await redis.delete(
        redis_keys.log(asked.tenant_id, asked.generation_id), redis_keys.lease(asked.generation_id)
    )
    assert await lose(redis) == 1
    assert (await database(records.of, asked)).error_code == "log_lost"
    assert await registry.lost(redis) == set()


async def test_a_stop_that_it_did_not_hear_holds(redis: Client, records: Records) -> None:
    asked = await running(redis, records, tokens=2)
    await control.send(redis, {"inc_a": [Cancel(asked.generation_id)]})
    assert await lose(redis) == 1
    end = await last(redis, asked)
    assert isinstance(end, Finished)
    assert (end.finish_reason, end.usage.output_tokens) == ("cancelled", 2)
    assert (await database(records.of, asked)).state == State.CANCELLED


@pytest.mark.parametrize("reason", ["drained", "engine_lost"])
async def test_lost_between_suspending_and_putting_back(
    redis: Client, records: Records, reason: str
) -> None:
    asked = await running(redis, records, tokens=2)
    entry = Suspended(2, " held", reason, Usage(3, 2))  # type: ignore[arg-type]
    assert await append(redis, asked, entry)
    assert await lose(redis) == 1
    taken = await next_turn(redis)
    assert (taken.seq, taken.text, taken.logged_text) == (2, "river river  held", "river river ")
    assert taken.engines_lost == (reason == "engine_lost")


@pytest.mark.parametrize("reason", ["detached", "held"])
async def test_lost_between_suspending_and_keeping(
    redis: Client, records: Records, reason: SuspendReason
) -> None:
    asked = await running(redis, records, tokens=2)
    assert await append(redis, asked, Suspended(2, "", reason, Usage(3, 2)))
    assert await lose(redis) == 1
    assert (await database(records.of, asked)).state == State.SUSPENDED
    assert await checkpoints.go_on(redis, asked.tenant_id, asked.generation_id)
    assert (await next_turn(redis)).text == "river river "


async def test_lost_before_its_first_token_of_a_later_turn(redis: Client, records: Records) -> None:
    """What an engine had held back when it was suspended is in no entry of the log."""
    asked = await running(redis, records, tokens=2)
    assert await append(redis, asked, Suspended(2, " held", "drained", Usage(3, 2)))
    await lose(redis)
    await next_turn(redis, "inc_a")
    assert await lose(redis) == 1
    taken = await next_turn(redis)
    assert (taken.text, taken.logged_text, taken.turn) == ("river river  held", "river river ", 2)


async def test_a_checkpoint_of_an_earlier_turn_comes_too_late(
    redis: Client, records: Records
) -> None:
    asked = await running(redis, records, tokens=2)
    entry = Suspended(2, "", "detached", Usage(3, 2))
    later = msgspec.structs.replace(asked, turn=1, progress=Progress([1, 1], "river river "))
    await redis.set(redis_keys.lease(asked.generation_id), "suspended:inc_b/1")
    await database(checkpoints.keep, Suspension(later, entry), now=START)
    await database(checkpoints.keep, Suspension(asked, entry), now=START)
    assert await checkpoints.go_on(redis, asked.tenant_id, asked.generation_id)
    assert (await next_turn(redis)).turn == 2


async def test_one_that_cannot_be_read_holds_up_no_other(redis: Client, records: Records) -> None:
    broken, sound = await running(redis, records), await running(redis, records, tokens=3)
    log = redis_keys.log(broken.tenant_id, broken.generation_id)
    await redis.xadd(log, {"e": b"no entry"}, id="0-9")
    assert await lose(redis) == 1
    assert (await next_turn(redis)).generation_id == sound.generation_id
    assert await registry.unsettled(redis, "inc_a") == [broken]
    assert await registry.lost(redis) == {"inc_a"}
