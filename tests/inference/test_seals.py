"""Settled generations are in the audit chain, each once, and what is done to them later shows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import Finished, Usage
from inference.models import Generation
from inference.services import seals
from inference.services.seals import FIELDS, digest, seal_settled
from inference.services.settlement import Outcome, settle_all
from tenants import scope
from tenants.services.audit_check import check
from tests.inference.making import START, Records, request
from tests.tenants.recorded import recorded

ACTION = "generations.seal"
LATER = START + timedelta(minutes=1)


def settled(records: Records, *ids: str, tenant: str = "ten_a", output: int = 5) -> None:
    ended = []
    for generation_id in ids:
        asked = request(tenant, generation_id=generation_id)
        records.open(asked)
        usage = Usage(prompt_tokens=3, output_tokens=output, cached_tokens=1)
        final = Finished(seq=output, text="", finish_reason="stop", usage=usage)
        ended.append((Outcome(tenant, generation_id, "words", final), START))
    assert settle_all(ended) == [True] * len(ids)


def generation(generation_id: str) -> Any:
    return Generation.objects.filter(id=generation_id)


def test_each_tenants_generations_get_one_record_of_their_own(records: Records) -> None:
    settled(records, "gen_1", "gen_2")
    settled(records, "gen_3", tenant="ten_b", output=7)
    records.open(request(generation_id="gen_open"))
    assert seal_settled(now=LATER) == 3
    first, second = recorded(ACTION)
    assert (first.tenant_id, second.tenant_id) == ("ten_a", "ten_b")
    assert first.after == {"generations": 2, "prompt_tokens": 6, "output_tokens": 10}
    assert second.after == {"generations": 1, "prompt_tokens": 3, "output_tokens": 7}
    assert (first.actor_type, first.object_type, first.at) == ("system", "seal", LATER)
    with scope.whole_platform():
        assert generation("gen_3").get().seal == second.object_id
        assert generation("gen_open").get().seal is None
    assert check().breaks == []


def test_each_is_sealed_once(records: Records) -> None:
    assert seal_settled(now=LATER) == 0
    settled(records, "gen_1")
    assert [seal_settled(now=LATER), seal_settled(now=LATER)] == [1, 0]
    settled(records, "gen_2")
    assert seal_settled(now=LATER) == 1
    assert [row.after["generations"] for row in recorded(ACTION)] == [1, 1]
    assert check().breaks == []


def test_many_are_sealed_by_several_records(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "AT_ONCE", 3)
    monkeypatch.setattr(seals, "SEALS_AT_ONCE", 2)
    settled(records, *(f"gen_{number}" for number in range(20)))
    assert seal_settled(now=LATER) == 20
    assert len(recorded(ACTION)) == 7
    assert check().breaks == []
    monkeypatch.setattr(seals, "MOST_SEALS", 2)
    settled(records, *(f"gen_more_{number}" for number in range(20)))
    assert seal_settled(now=LATER) == 6  # the rest in the next rounds


def test_two_workers_at_once_seal_each_generation_once(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "AT_ONCE", 5)
    settled(records, *(f"gen_{number:02}" for number in range(40)))
    sealed: list[int] = []
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        try:
            sealed.append(seal_settled(now=LATER))
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sealed.append(seal_settled(now=LATER))
    assert sum(sealed) == sum(row.after["generations"] for row in recorded(ACTION)) == 40
    assert check().breaks == []


def test_a_round_that_fails_leaves_nothing_half_done(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(records, "gen_1")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("away")

    with monkeypatch.context() as patched:
        patched.setattr(seals, "record", broken)
        with pytest.raises(RuntimeError):
            seal_settled(now=LATER)
    assert check().breaks == []
    assert seal_settled(now=LATER) == 1


TAMPERED: dict[str, tuple[Callable[[], object], str]] = {
    "tokens changed": (lambda: generation("gen_2").update(output_tokens=4), "some were changed"),
    "outcome changed": (lambda: generation("gen_2").update(finish_reason="x"), "some were changed"),
    "whose it was changed": (lambda: generation("gen_2").update(key_id="k"), "some were changed"),
    "time changed": (lambda: generation("gen_2").update(settled_at=LATER), "some were changed"),
    "dropped": (lambda: generation("gen_2").delete(), "it sealed 2 generations, and there are 1"),
    "taken out of its seal": (lambda: generation("gen_2").update(seal=None), "there are 1"),
    "added": (
        lambda: generation("gen_late").update(seal=generation("gen_2").get().seal),
        "there are 3",
    ),
    "added with a seal made up": (
        lambda: generation("gen_late").update(seal="seal_made_up"),
        "generation gen_late names a seal that was never recorded",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_is_done_to_them_later_shows(records: Records, what: str) -> None:
    settled(records, "gen_1", "gen_2")
    seal_settled(now=LATER)
    settled(records, "gen_late")
    assert check().breaks == []
    tamper, told = TAMPERED[what]
    with scope.whole_platform():
        tamper()
    found = check().breaks
    assert len(found) == 1
    assert told in found[0]


def test_settling_asks_the_database_no_more_than_before(records: Records) -> None:
    """Nothing of the chain is in settlement: an update each, and three statements for all."""
    ids = [f"gen_{number}" for number in range(10)]
    for generation_id in ids:
        records.open(request(generation_id=generation_id))
    usage = Usage(prompt_tokens=3, output_tokens=5)
    final = Finished(seq=5, text="", finish_reason="stop", usage=usage)
    ended = [(Outcome("ten_a", each, "words", final), START) for each in ids]
    with CaptureQueriesContext(connection) as queries:
        settle_all(ended)
    statements = [query["sql"] for query in queries if "inference_" in query["sql"]]
    assert len([each for each in statements if each.startswith("UPDATE")]) == 10
    assert not [each for each in statements if "audit" in each]


ROW = st.tuples(
    *(
        st.integers(0, 9)
        if "tokens" in name
        else st.datetimes(timezones=st.just(START.tzinfo))
        if name.endswith("_at")
        else st.text(max_size=4)
        for name in FIELDS
    )
)


@given(st.lists(ROW, max_size=6, unique_by=lambda row: row[0]), st.data())
def test_the_digest_is_of_what_they_say_and_not_of_their_order(
    rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    assert digest(data.draw(st.permutations(rows))) == digest(rows)
    if rows:
        assert digest(rows[1:]) != digest(rows)
        column = data.draw(st.sampled_from(range(1, len(FIELDS))))
        changed = data.draw(ROW)
        other = (*rows[0][:column], changed[column], *rows[0][column + 1 :])
        assert (digest([other, *rows[1:]]) == digest(rows)) == (other == rows[0])
