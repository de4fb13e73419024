from __future__ import annotations

import pytest

from kernel.ids import MAX_LENGTH, is_id, new_id


def test_ids_say_what_they_name_and_sort_by_time() -> None:
    first, second = new_id("gen"), new_id("gen")
    assert first.startswith("gen_")
    assert first != second
    assert len(first) <= MAX_LENGTH
    assert is_id(first)


@pytest.mark.parametrize(
    "text", ["", "gen", "gen_", "gen_\x00", "GEN_01", "gen_01'", "gen_" + "0" * 40, "gen_ç"]
)
def test_what_cannot_be_an_id(text: str) -> None:
    assert not is_id(text)
