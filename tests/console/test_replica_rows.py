"""Which rows the replica page has: of replicas, and of processes that none speaks for."""

from __future__ import annotations

import pytest

from console.replicas.rows import replica_rows
from console.replicas.supervision import EngineProcess
from inference.messages import ReplicaRecord
from inference.services.replicas import ReplicaView


def view(
    replica: str = "engine", state: str = "ready", *, release: str = "fake", incarnation: str = "a"
) -> ReplicaView:
    record = ReplicaRecord(replica, incarnation, "rel", release, state, since=3.0)
    return ReplicaView(record, [1.0, 2.0])


def engine(phase: str = "running", *, name: str = "engine", release: str = "fake") -> EngineProcess:
    return EngineProcess(name, release, phase, 7.0)


def shown(views: list[ReplicaView], *engines: EngineProcess) -> list[tuple[str, str | None, str]]:
    return [(row.replica, row.process, row.state) for row in replica_rows(views, engines)]


def test_a_replica_speaks_for_its_process() -> None:
    assert shown([view()], engine()) == [("engine", "engine", "ready")]


def test_while_one_takes_anothers_place_both_are_its_process() -> None:
    views = [view(state="draining"), view("engine@2", "loading", incarnation="b")]
    assert shown(views, engine(), engine()) == [
        ("engine", "engine", "draining"),
        ("engine@2", "engine", "loading"),
    ]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("idle", "starting"),
        ("running", "starting"),
        ("waiting", "failing"),
        ("stopping", "draining"),
        ("stopped", "stopped"),
        ("a word of a later version", "starting"),
    ],
)
def test_a_process_that_nothing_speaks_for(phase: str, state: str) -> None:
    (row,) = replica_rows([], [engine(phase)])
    assert (row.replica, row.state, row.since, row.rates) == ("engine", state, 7.0, [])


def test_replicas_that_run_elsewhere_have_no_process() -> None:
    assert shown([view("gpu-7")]) == [("gpu-7", None, "ready")]
    other = view("engine", release="other")
    assert shown([other], engine()) == [("engine", "engine", "starting"), ("engine", None, "ready")]


def test_a_lost_one_is_in_sight_until_its_place_is_stopped() -> None:
    lost = [view(state="lost")]
    assert shown(lost, engine("waiting")) == [("engine", "engine", "lost")]
    assert shown(lost, engine("stopped")) == [("engine", "engine", "stopped")]
    assert shown(lost) == [("engine", None, "lost")]


def test_each_row_has_a_key_of_its_own() -> None:
    views = [view(incarnation=name) for name in ("a", "b", "c")]
    rows = replica_rows(views, [])
    assert len({row.key for row in rows}) == 3
    # The first keeps the place's, whoever stands in it.
    assert rows[0].key == replica_rows([view(incarnation="z")], [])[0].key
