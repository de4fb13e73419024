"""The marks of a prompt."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as thoroughly
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from inference import prefixes

TOKENS = st.lists(st.integers(0, 60_000), max_size=400)


@pytest.fixture(autouse=True)
def _small_blocks(settings: Settings) -> None:
    settings.PREFIX_BLOCK_TOKENS = 4


def split(marks: bytes) -> list[bytes]:
    size = prefixes.MARK_BYTES
    return [marks[at : at + size] for at in range(0, len(marks), size)]


def common(one: list[int], other: list[int]) -> int:
    """How many tokens both begin with."""
    different = (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(different, min(len(one), len(other)))


@given(shared=TOKENS, one=TOKENS, other=TOKENS)
@thoroughly(deadline=None, suppress_health_check=list(HealthCheck))
def test_marks_are_shared_as_far_as_the_tokens_are(
    shared: list[int], one: list[int], other: list[int]
) -> None:
    prompts = [shared + one, shared + other]
    first, second = (split(prefixes.marks("ten_a", each)) for each in prompts)
    ends = [end for end in prefixes._ends(10_000) if end <= common(*prompts)]
    alike = sum(mine == theirs for mine, theirs in zip(first, second, strict=False))
    # Of a prompt that is the other's beginning the last token has no mark.
    assert alike == min(len(ends), len(first), len(second))
    assert first[:alike] == second[:alike]


def test_other_tenants_have_other_marks() -> None:
    tokens = list(range(40))
    assert not {*split(prefixes.marks("ten_a", tokens))} & {*split(prefixes.marks("ten_b", tokens))}


@pytest.mark.parametrize(("tokens", "marks"), [(0, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_only_whole_blocks_and_never_the_last_token(tokens: int, marks: int) -> None:
    assert len(split(prefixes.marks("ten_a", [7] * tokens))) == marks


def test_long_prompts_have_marks_further_apart_and_not_too_many() -> None:
    ends = list(prefixes._ends(4 * 1_000_000))
    blocks = [end // 4 for end in ends]
    assert blocks[:33] == [*range(1, 33), 34]
    assert len(ends) == prefixes.MOST_MARKS
    assert all(after - before <= after / 16 for before, after in pairwise(blocks[31:]))
