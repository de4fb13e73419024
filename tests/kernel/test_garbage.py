from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kernel import garbage


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_is_loaded_is_looked_at_no_more_and_what_comes_still_is() -> None:
    garbage.freeze_what_is_loaded()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == garbage.YOUNG
    assert len(gc.get_objects()) < gc.get_freeze_count()
    for _ in range(10):
        Cycle()
    assert gc.collect() >= 10
