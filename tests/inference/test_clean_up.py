"""What is past its time or over its size is cleaned up, once, and every run is recorded."""

from __future__ import annotations

import getpass
import io
from datetime import timedelta

import msgspec
import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from inference import messages, queue, redis_keys, token_log
from inference.messages import Finished, Progress, QueuedRequest, Suspended, Usage
from inference.models import Checkpoint, Generation, MaintenanceRun, ReplayKey, State
from inference.services import checkpoints, ended_logs, maintenance, settlement
from inference.services.checkpoints import Suspension
from inference.services.settlement import Outcome, settle
from inference.tasks import clean_up_checkpoints
from inference.token_log import Write
from kernel.database import database
from kernel.redis import Client
from tenants import scope
from tests.inference.making import START, Records, StoppedClock, entries, leased, request
from tests.tenants.recorded import recorded


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture(autouse=True)
def sizes(settings: Settings) -> None:
    settings.CHECKPOINT_TTL_S = 3600
    settings.LOG_TTL_S = 600


async def suspended(
    redis: Client, records: Records, *, tenant_id: str = "ten_a", age_s: float = 0
) -> QueuedRequest:
    """A generation with two tokens that was suspended so long before START."""
    asked = request(tenant_id)
    await database(records.open, asked)
    await leased(redis, "inc_a", asked)
    progress = Progress([1, 2], "ri ver ")
    entry = Suspended(2, "", "detached", Usage(3, 2))
    tokens = messages.Tokens(2, "ri ver ", (1, 2))
    writes = [Write(tenant_id, asked.generation_id, each) for each in (tokens, entry)]
    assert all(await token_log.append(redis, "inc_a", writes))
    kept = msgspec.structs.replace(asked, progress=progress)
    now = START - timedelta(seconds=age_s)
    await database(checkpoints.keep, Suspension(kept, entry), now=now)
    return asked


async def states(records: Records, *asked: QueuedRequest) -> list[str]:
    return [(await database(records.of, each)).state for each in asked]


def kept() -> set[str]:
    with scope.whole_platform():
        return set(Checkpoint.objects.values_list("generation_id", flat=True))


async def test_checkpoints_past_their_age_are_given_up_with_what_they_have(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    old = await suspended(redis, records, age_s=3600)
    young = await suspended(redis, records, age_s=3599)
    assert await maintenance.clean_up(redis, clock) == {
        "checkpoints": 1,
        "replay_keys": 0,
        "idempotency_keys": 0,
        "logs": 0,
    }
    assert await states(records, old, young) == [State.CANCELLED, State.SUSPENDED]
    last = (await entries(redis, old))[-1]
    assert isinstance(last, Finished)
    assert (last.finish_reason, last.seq) == ("cancelled", 2)
    assert (await database(records.of, old)).output_tokens == 2
    assert await database(kept) == {young.generation_id}
    assert (await maintenance.clean_up(redis, clock))["checkpoints"] == 0


async def test_a_tenant_over_its_size_loses_its_oldest_and_no_other_tenant_any(
    redis: Client, records: Records, clock: StoppedClock, settings: Settings
) -> None:
    ages = {age: await suspended(redis, records, age_s=age) for age in (30, 10, 40, 20)}
    foreign = await suspended(redis, records, tenant_id="ten_b", age_s=100)
    with scope.whole_platform():
        size = await database(lambda: Checkpoint.objects.first().size_bytes)
    settings.CHECKPOINT_BYTES_PER_TENANT = 2 * size
    assert (await maintenance.clean_up(redis, clock))["checkpoints"] == 2
    gone = {age for age, asked in ages.items() if asked.generation_id not in await database(kept)}
    assert gone == {40, 30}
    assert await states(records, foreign) == [State.SUSPENDED]


async def test_one_that_goes_on_meanwhile_is_left_alone(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    asked = await suspended(redis, records, age_s=4000)
    surplus = await database(checkpoints._surplus, clock.now())
    assert await checkpoints.go_on(redis, asked.tenant_id, asked.generation_id)
    assert surplus == [(asked.tenant_id, asked.generation_id)]
    assert not await checkpoints.give_up(redis, clock, *surplus[0])
    assert await states(records, asked) == [State.OPEN]
    assert await queue.place(redis, "rel_a", asked.generation_id) == 1


def replay_key(name: str, expires_s: float) -> None:
    with scope.tenant("ten_a"):
        ReplayKey.objects.create(
            tenant_id="ten_a",
            principal="user:1",
            key_digest=name,
            body_digest=name,
            generation_id="gen_x",
            expires_at=START + timedelta(seconds=expires_s),
        )


def replay_keys() -> set[str]:
    with scope.whole_platform():
        return set(ReplayKey.objects.values_list("key_digest", flat=True))


async def test_replay_keys_past_their_time_are_forgotten(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    await database(replay_key, "old", 0)
    await database(replay_key, "new", 1)
    assert (await maintenance.clean_up(redis, clock))["replay_keys"] == 1
    assert await database(replay_keys) == {"new"}


async def ended(redis: Client, records: Records) -> QueuedRequest:
    asked = request()
    await database(records.open, asked)
    await leased(redis, "inc_a", asked)
    final = Finished(0, "", "stop", Usage(3, 0))
    await token_log.append(redis, "inc_a", [Write(asked.tenant_id, asked.generation_id, final)])
    outcome = Outcome(asked.tenant_id, asked.generation_id, "", final)
    assert await database(settle, outcome, now=START)
    return asked


def log_of(asked: QueuedRequest) -> str:
    return redis_keys.log(asked.tenant_id, asked.generation_id)


async def test_logs_and_leases_that_would_stay_expire(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    settled = await ended(redis, records)
    unknown = await leased(redis, "inc_a")
    too_long = await ended(redis, records)
    running = request()
    await database(records.open, running)
    await leased(redis, "inc_a", running)
    waiting = await suspended(redis, records)
    for asked in (settled, unknown, running):
        await redis.persist(log_of(asked))
    await redis.persist(redis_keys.lease(settled.generation_id))
    await redis.expire(log_of(too_long), 86_400)
    expiries = [await redis.expiretime(log_of(each)) for each in (running, waiting)]
    assert expiries[0] == -1
    # settled: log and lease; unknown: log and the lease that a running one has for ever; too_long
    assert await ended_logs.let_expire(redis, clock, dry_run=True) == 5
    assert await redis.ttl(log_of(settled)) == -1
    assert await ended_logs.let_expire(redis, clock) == 5
    for key in (
        log_of(settled),
        log_of(unknown),
        log_of(too_long),
        redis_keys.lease(settled.generation_id),
        redis_keys.lease(unknown.generation_id),
    ):
        assert 590 <= await redis.ttl(key) <= 600
    assert [await redis.expiretime(log_of(each)) for each in (running, waiting)] == expiries
    assert await redis.ttl(redis_keys.lease(running.generation_id)) == -1
    assert await ended_logs.let_expire(redis, clock) == 0


async def test_one_that_expires_sooner_is_not_prolonged(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    settled = await ended(redis, records)
    await redis.expire(log_of(settled), 5)
    assert await ended_logs.let_expire(redis, clock) == 0
    assert await redis.ttl(log_of(settled)) <= 5


async def test_more_logs_than_are_looked_at_in_a_step(
    redis: Client, records: Records, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_logs, "SCANNED_AT_ONCE", 10)
    for number in range(300):
        await redis.xadd(redis_keys.log("ten_a", f"gen_{number}"), {"e": b""})
        await redis.set(f"other:{number}", "1")
    assert await ended_logs.let_expire(redis, clock) == 300
    assert await ended_logs.let_expire(redis, clock) == 0
    assert await redis.ttl("other:1") == -1


async def everything(redis: Client) -> dict[str, object]:
    """What Redis and the database hold."""

    def rows() -> list[object]:
        with scope.whole_platform():
            models = (Generation, Checkpoint, ReplayKey, MaintenanceRun)
            return [list(model.objects.order_by("pk").values()) for model in models]

    keys = sorted(await redis.keys("nehir:*"))
    dumps = {key: (await redis.dump(key), await redis.expiretime(key)) for key in keys}
    return {"redis": dumps, "database": await database(rows)}


async def test_a_dry_run_tells_and_changes_nothing(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    await suspended(redis, records, age_s=4000)
    await database(replay_key, "old", -1)
    await redis.persist(log_of(await ended(redis, records)))
    before = await everything(redis)
    found = {"checkpoints": 1, "replay_keys": 1, "idempotency_keys": 0, "logs": 1}
    assert await maintenance.survey(redis, clock) == found
    assert await everything(redis) == before
    assert await maintenance.clean_up(redis, clock) == found


async def test_a_crash_in_the_middle_is_recorded_and_the_next_run_goes_on(
    redis: Client,
    records: Records,
    clock: StoppedClock,
    listeners: list[settlement.Listener],
) -> None:
    """Between a log's last entry and the record of it, where a process may die."""
    asked = [await suspended(redis, records, age_s=4000 + age) for age in range(3)]
    heard: list[str] = []

    def once(generation: Generation, outcome: Outcome) -> None:
        if not heard:
            heard.append("crash")
            raise RuntimeError("the process dies")
        heard.append(generation.id)

    listeners.append(once)
    with pytest.raises(RuntimeError):
        await maintenance.clean_up(redis, clock)
    assert await states(records, *asked) == [State.SUSPENDED] * 3
    counts = await maintenance.clean_up(redis, clock)
    assert counts["checkpoints"] == 3
    assert await states(records, *asked) == [State.CANCELLED] * 3
    assert sorted(heard[1:]) == sorted(each.generation_id for each in asked)
    for each in asked:
        ends = [entry for entry in await entries(redis, each) if isinstance(entry, Finished)]
        assert len(ends) == 1
    runs = await database(lambda: list(MaintenanceRun.objects.order_by("pk")))
    assert [run.error for run in runs] == ["RuntimeError: the process dies", ""]
    assert [run.counts for run in runs] == [{}, counts]
    assert all(run.finished_at == START for run in runs)


async def test_the_last_hundred_runs_are_kept(
    redis: Client, records: Records, clock: StoppedClock
) -> None:
    def earlier() -> None:
        run = {"name": "clean_up", "started_at": START, "finished_at": START}
        MaintenanceRun.objects.bulk_create(MaintenanceRun(**run) for _ in range(120))
        MaintenanceRun.objects.create(name="another", started_at=START)

    await database(earlier)
    await maintenance.clean_up(redis, clock)
    names = await database(lambda: list(MaintenanceRun.objects.values_list("name", flat=True)))
    assert names.count("clean_up") == 100
    assert names.count("another") == 1
    newest = await database(lambda: MaintenanceRun.objects.filter(name="clean_up").latest("pk"))
    assert newest.counts == dict.fromkeys(maintenance.STEPS, 0)


def test_the_task_and_the_command_do_the_same(records: Records) -> None:
    replay_key("old", -(10**9))
    dry, wet = io.StringIO(), io.StringIO()
    call_command("clean_up", "--dry-run", stdout=dry)
    assert "1 replay keys to forget" in dry.getvalue()
    assert replay_keys() == {"old"}
    assert not MaintenanceRun.objects.exists()
    assert recorded("maintenance.run") == []
    call_command("clean_up", stdout=wet)
    assert "1 replay keys forgotten" in wet.getvalue()
    replay_key("old", -(10**9))
    assert clean_up_checkpoints()["replay_keys"] == 1
    assert replay_keys() == set()
    assert [run.counts["replay_keys"] for run in MaintenanceRun.objects.order_by("pk")] == [1, 1]
    # Of the two the one that somebody ran.
    (told,) = recorded("maintenance.run")
    assert (told.actor_id, told.auth_method) == (getpass.getuser(), "command_line")
    assert told.after == dict.fromkeys(maintenance.STEPS, 0) | {"replay_keys": 1}


def test_the_command_says_in_a_sentence_that_redis_is_away(
    records: Records, settings: Settings
) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    with pytest.raises(CommandError, match="message store"):
        call_command("clean_up")
    assert "ConnectionError" in MaintenanceRun.objects.get().error
    (told,) = recorded("maintenance.run")
    assert (told.outcome, told.reason) == ("failed", "ConnectionError")
