"""What operators are shown of tenants' shares."""

from __future__ import annotations

import pytest

from console.replicas.shares import share_rows
from inference.services.shares import WINDOW_S, Share


def share(part: float, entitled: float, waiting: int) -> Share:
    return Share("ten_a", "batch", 10.0 * WINDOW_S, part, entitled, waiting)


def test_a_row_has_the_tenants_name_and_percents() -> None:
    ((release),) = share_rows([("fake", [share(0.251, 1 / 3, 0)])], {"ten_a": "Acme"})
    (row,) = release.shares
    assert (release.release, row.tenant, row.priority_class) == ("fake", "Acme", "batch")
    assert (row.per_s, row.part, row.entitled) == (10.0, 25.1, 33.3)


@pytest.mark.parametrize(
    ("part", "waiting", "short"), [(0.2, 1, True), (0.2, 0, False), (0.48, 1, False)]
)
def test_only_who_waits_can_have_had_too_little(part: float, waiting: int, short: bool) -> None:
    ((release),) = share_rows([("fake", [share(part, 0.5, waiting)])], {})
    assert [row.short for row in release.shares] == [short]
