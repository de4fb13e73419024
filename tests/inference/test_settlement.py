from __future__ import annotations

import threading

import pytest

from inference.messages import Failed, Final, Finished, QueuedRequest, Usage
from inference.models import Generation, State
from inference.services import settlement
from inference.services.settlement import Outcome, settle
from tests.inference.making import START, Records, request

USAGE = Usage(prompt_tokens=3, output_tokens=5, cached_tokens=1)
STOP = Finished(seq=5, text="", finish_reason="stop", usage=USAGE)
CANCELLED = Finished(seq=5, text="", finish_reason="cancelled", usage=USAGE)
LOST = Failed(seq=5, code="engine_lost", message="Lost.", retryable=True, usage=USAGE)


def outcome(asked: QueuedRequest, final: Final) -> Outcome:
    return Outcome(asked.tenant_id, asked.generation_id, "words", final)


@pytest.mark.parametrize(
    ("final", "state", "reason", "code"),
    [
        (STOP, State.FINISHED, "stop", ""),
        (CANCELLED, State.CANCELLED, "cancelled", ""),
        (LOST, State.FAILED, "", "engine_lost"),
    ],
)
def test_the_record_says_how_it_ended_and_counts_what_the_log_counts(
    records: Records, final: Final, state: State, reason: str, code: str
) -> None:
    asked = request()
    records.open(asked)
    assert settle(outcome(asked, final), now=START)
    found = records.of(asked)
    assert (found.state, found.finish_reason, found.error_code) == (state, reason, code)
    assert (found.output_tokens, found.cached_tokens, found.prompt_tokens) == (5, 1, 3)
    assert found.settled_at == START


def test_only_the_first_settlement_counts(
    records: Records, listeners: list[settlement.Listener]
) -> None:
    heard: list[str] = []
    listeners.append(lambda generation, _outcome: heard.append(generation.id))
    asked = request()
    records.open(asked)
    assert settle(outcome(asked, STOP), now=START)
    assert not settle(outcome(asked, LOST), now=START)
    assert records.of(asked).state == State.FINISHED
    assert heard == [asked.generation_id]


def test_of_many_that_settle_at_once_one_does(
    records: Records, listeners: list[settlement.Listener]
) -> None:
    heard: list[str] = []
    listeners.append(lambda generation, _outcome: heard.append(generation.id))
    asked = request()
    records.open(asked)
    done: list[bool] = []

    def race() -> None:
        from django.db import connections

        done.append(settle(outcome(asked, STOP), now=START))
        connections.close_all()

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False] * 7 + [True]
    assert heard == [asked.generation_id]


def test_a_listener_that_fails_undoes_the_settlement(
    records: Records, listeners: list[settlement.Listener]
) -> None:
    def fail(_generation: Generation, _outcome: Outcome) -> None:
        raise RuntimeError("the ledger is full")

    listeners.append(fail)
    asked = request()
    records.open(asked)
    with pytest.raises(RuntimeError, match="ledger"):
        settle(outcome(asked, STOP), now=START)
    assert records.of(asked).state == State.OPEN
    listeners.clear()
    assert settle(outcome(asked, STOP), now=START)


def test_a_generation_is_settled_in_its_own_tenant_alone(records: Records) -> None:
    asked = request("ten_a")
    records.open(asked)
    stranger = Outcome("ten_b", asked.generation_id, "words", STOP)
    assert not settle(stranger, now=START)
    assert not settle(outcome(request(), STOP), now=START)
    assert records.of(asked).state == State.OPEN
