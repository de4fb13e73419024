"""What an engine host counts: each number moves for its reason, and for no other."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from prometheus_client import REGISTRY, Histogram

from inference import metrics
from inference.engine.fake import FakeEngine
from inference.engine.protocol import Delta
from inference.host.charging import Charging
from inference.host.presence import Presence
from inference.host.run import Run
from inference.host.tally import Tally
from inference.messages import Progress, ReplicaRecord, Suspended, Usage
from inference.queue import Charge
from kernel.redis import Client
from tests.inference.making import START, Records, StoppedClock, request
from tests.inference.test_runner import bench

RELEASE = "counted"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"nehir_{name}", {"release": RELEASE, **labels}) or 0.0


def tokens(kind: str) -> float:
    who = {"priority": "standard", "tenant": "ten_counted", "type": kind}
    return value("tenant_tokens_total", **who)


async def test_a_prompt_counts_once_for_its_tenant_and_at_each_prefill_for_the_cache() -> None:
    tally, asked = Tally(RELEASE), request("ten_counted", prompt=(1,) * 300)
    kinds = ("input", "cached_input")
    before = [tokens(kind) for kind in kinds]
    looked, found = value("prefix_cache_queries_total"), value("prefix_cache_hits_total")
    tally.prefilled(asked, 128)
    going_on = msgspec.structs.replace(asked, progress=Progress([7], "x"))
    tally.prefilled(going_on, 256)
    assert [tokens(kind) - was for kind, was in zip(kinds, before, strict=True)] == [300, 128]
    assert value("prefix_cache_queries_total") - looked == 600
    assert value("prefix_cache_hits_total") - found == 128 + 256


async def test_output_counts_for_its_tenant_when_it_is_charged(redis: Client) -> None:
    charging, before = Charging(redis, "rel_a", RELEASE), tokens("output")
    run = Run.of(request("ten_counted"), now=0)
    charging.add(run)
    run.tail.seq = 5
    await charging.charge()
    await charging.charge()
    run.tail.seq = 7
    await charging.charge()
    assert tokens("output") - before == 7
    charging._count(Charge(run.request, 7, 7))
    assert tokens("output") - before == 7


async def test_queue_time_is_of_what_comes_from_its_admission() -> None:
    tally, asked = Tally(RELEASE), request()
    name = "request_queue_time_seconds_"
    before = [value(name + each, priority="standard") for each in ("sum", "count")]
    tally.started(asked, now_s=START.timestamp() + 3)
    tally.started(msgspec.structs.replace(asked, turn=1), now_s=START.timestamp() + 9)
    after = [value(name + each, priority="standard") for each in ("sum", "count")]
    assert [now - was for now, was in zip(after, before, strict=True)] == [3, 1]


async def test_ends_tokens_and_time_in_the_engine() -> None:
    tally = Tally(RELEASE)
    labels = {"outcome": "drained"}
    before = value("generations_ended_total", **labels)
    spent = value("request_inference_time_seconds_sum")
    made = value("generation_tokens_total")
    tally.took(Delta("ab", (1, 2)))
    tally.ended(Suspended(2, "", "drained", Usage(3, 2)), took_s=4, tokens=2)
    assert value("generation_tokens_total") == made, "told with the next heartbeat"
    tally.publish()
    tally.publish()
    assert value("generation_tokens_total") - made == 2
    assert value("generations_ended_total", **labels) - before == 1
    assert value("request_inference_time_seconds_sum") - spent == 4


async def test_holds_and_restores() -> None:
    tally = Tally(RELEASE)
    before = value("holds_total", reason="credit"), value("restores_total")
    tally.held()
    tally.restored()
    tally.restored()
    held = value("holds_total", reason="credit") - before[0]
    assert (held, value("restores_total") - before[1]) == (1, 2)
    assert (tally.holds, tally.restores) == (1, 2)


async def test_a_heartbeat_shows_what_runs_and_what_is_held(redis: Client) -> None:
    record = ReplicaRecord("engine", "inc_a", "rel_a", RELEASE, "ready")
    presence = Presence(redis, record, StoppedClock())
    await presence.renew(state="ready", output_tokens=1, running=5, held=2)
    shown = [value(f"num_requests_{what}", replica="engine") for what in ("running", "held")]
    assert shown == [5, 2]


class Paced(FakeEngine):
    """Its first tokens come 50 ms apart by a clock that stands otherwise; then it is waited for."""

    def __init__(self, clock: StoppedClock) -> None:
        super().__init__(ttft_s=0, itl_s=0)
        self._clock = clock

    def _delta(self, *arguments: object) -> Delta:
        self._clock.advance(0.05)
        return super()._delta(*arguments)  # type: ignore[arg-type]


async def test_between_tokens_is_the_engines_pace_and_not_the_readers(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps: list[float] = []
    monkeypatch.setattr(metrics.Gathered, "observe", lambda _, value: gaps.append(value))
    async with bench(redis, records, FakeEngine(ttft_s=0, itl_s=0)) as at:
        at.runner._engine = engine = Paced(at.clock)
        at.runner._credit._engine = engine
        asked = await at.taken(max_tokens=8)
        run = at.runner.start(msgspec.structs.replace(asked, high_water_tokens=4))
        while not run.flow.held:
            await asyncio.sleep(0.002)
        at.clock.advance(60)
        run.flow.consumed = 8
        await at.runner._credit.go_on_if_it_may(run)
        await at.ended(asked)
    assert gaps == pytest.approx([0.05] * len(gaps))
    # Of eight tokens seven gaps, without the one in which it was held.
    assert len(gaps) == 6


async def test_what_an_engine_gives_after_it_was_told_to_hold_begins_no_gap(
    redis: Client, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps: list[float] = []
    monkeypatch.setattr(metrics.Gathered, "observe", lambda _, value: gaps.append(value))
    async with bench(redis, records, FakeEngine(ttft_s=0, itl_s=0)) as at:
        run = Run.of(request(), now=0)
        run.flow.held = True
        at.runner._time(run, 1)
        run.flow.held = False
        at.clock.advance(60)
        at.runner._time(run, 1)
        at.clock.advance(0.1)
        at.runner._time(run, 1)
    assert gaps == pytest.approx([0.1])


def test_tokens_that_come_together_share_their_time() -> None:
    tally = Tally(RELEASE)
    before = [value(f"inter_token_latency_seconds_{each}") for each in ("sum", "count")]
    tally.came_after(0.3, 3)
    tally.publish()
    after = [value(f"inter_token_latency_seconds_{each}") for each in ("sum", "count")]
    assert after[0] - before[0] == pytest.approx(0.3)
    assert after[1] - before[1] == 3


@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.0051, 0.2, 2.5, 99.0])
def test_what_is_gathered_is_as_if_observed_one_by_one(seconds: float) -> None:
    one, other = (Histogram(name, "", registry=None, buckets=metrics.STEP_SECONDS) for name in "ab")
    gathered = metrics.Gathered(one, metrics.STEP_SECONDS)
    for _ in range(3):
        gathered.observe(seconds)
        other.observe(seconds)
    gathered.publish()
    gathered.publish()
    told = [[(s.labels, s.value) for s in each.collect()[0].samples] for each in (one, other)]
    assert [row for row in told[0] if "le" in row[0]] == [row for row in told[1] if "le" in row[0]]
