"""A route's latency objectives in the admin, and what of them the replica page is sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from console.replicas.latency import LatencyRow, latency_rows
from inference.messages import ReplicaRecord
from inference.models import Release, Route
from inference.replica_history import LatencySpan
from inference.services.replicas import ReplicaView

ADD = "/admin/inference/route/add/"
INTERACTIVE, STANDARD, BATCH = (
    f"itl_p95_{each}_ms" for each in ("interactive", "standard", "batch")
)


def post(operator: Client, **objectives: str) -> dict[str, list[str]]:
    """Its errors, by field."""
    release, _ = Release.objects.get_or_create(name="r", engine="fake", context_tokens=64)
    data = {"name": "m", "release": release.pk, "detached": "hold", "is_active": "on"}
    response: Any = operator.post(ADD, {**data, **objectives})
    if response.status_code == 302:
        return {}
    return dict(response.context["adminform"].form.errors)


def test_an_operator_gives_a_route_objectives(operator: Client) -> None:
    assert post(operator, **{INTERACTIVE: "40", BATCH: "200"}) == {}
    route = Route.objects.get()
    found = [route.itl_p95_ms(each) for each in ("interactive", "standard", "batch")]
    assert found == [40, None, 200]


@pytest.mark.parametrize("wrong", ["0", "-1", "60001", "fast"])
def test_an_objective_is_a_time(operator: Client, wrong: str) -> None:
    assert set(post(operator, **{INTERACTIVE: wrong})) == {INTERACTIVE}


@pytest.mark.parametrize(
    ("objectives", "refused"),
    [
        ({INTERACTIVE: "40", STANDARD: "30"}, STANDARD),
        ({INTERACTIVE: "40", BATCH: "39"}, BATCH),
        ({STANDARD: "40", BATCH: "39"}, BATCH),
    ],
)
def test_a_lower_class_has_no_tighter_one(
    operator: Client, objectives: dict[str, str], refused: str
) -> None:
    assert set(post(operator, **objectives)) == {refused}


def test_the_database_keeps_to_it(db: None) -> None:
    release = Release.objects.create(name="r", engine="fake", context_tokens=64)
    for wrong in (0, 60_001):
        with pytest.raises(IntegrityError), transaction.atomic():
            Route.objects.create(name="m", release=release, **{BATCH: wrong})


def record(**values: Any) -> ReplicaRecord:
    return msgspec.structs.replace(ReplicaRecord("e", "inc_a", "rel_a", "fake", "ready"), **values)


def test_a_row_says_what_is_delivered_wanted_and_allowed() -> None:
    told = record(slots=64, limit=12, running=9, objective_s=0.04, itl_p95_s=0.0385)
    spans = [LatencySpan(0.0501, 0.04, 20), LatencySpan(0.0, 0.0, 64)]
    assert latency_rows([ReplicaView(told, [], spans)]) == [
        LatencyRow(
            key="inc_a",
            replica="e",
            release="fake",
            p95_ms=38.5,
            objective_ms=40.0,
            running=9,
            limit=12,
            slots=64,
            p95s_ms=[50.1, 0.0],
            limits=[20, 64],
        )
    ]


def test_replicas_that_tell_nothing_have_no_row() -> None:
    lost, of_an_earlier_version = record(slots=64, state="lost"), record()
    assert latency_rows([ReplicaView(each, []) for each in (lost, of_an_earlier_version)]) == []
