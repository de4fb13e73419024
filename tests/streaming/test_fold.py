"""Batches of log entries, cut anywhere and trimmed anywhere, as one frame each."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import (
    Entry,
    Finished,
    Opened,
    Started,
    Suspended,
    SuspendReason,
    Tokens,
    Usage,
)
from inference.token_log import LogEntry
from streaming.answer import Frame, fold
from tests.streaming.river import text_of

# Sizes of entries of tokens; 0 is a stay in another engine: suspended, then started again.
SIZES = st.lists(st.integers(0, 5), max_size=12)


def log_of(sizes: list[int]) -> list[LogEntry]:
    seq, places, found = 0, 0, []

    def add(entry: Entry, *, place: int) -> None:
        found.append(LogEntry((seq, place), entry))

    add(Opened(3), place=1)
    add(Started("inc_a"), place=2)
    places = 2
    for size in sizes:
        if size == 0:
            add(Suspended(seq, "?", "drained", Usage(3, seq)), place=places + 1)
            add(Started("inc_b"), place=places + 2)
            places += 2
        else:
            seq, places = seq + size, 0
            ids = tuple(range(seq - size, seq))
            add(Tokens(seq, text_of(seq - size, seq), ids), place=0)
    add(Finished(seq, "!", "stop", Usage(3, seq)), place=places + 1)
    return found


@given(sizes=SIZES, cuts=st.sets(st.integers(1, 30)))
def test_however_it_is_cut_the_frames_add_up(sizes: list[int], cuts: set[int]) -> None:
    log = log_of(sizes)
    frames, behind = [], 0
    edges = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    for start, end in itertools.pairwise(edges):
        frames.append(fold(log[start:end], behind=behind))
        behind = frames[-1].seq
    assert "".join(frame.text for frame in frames) == text_of(0, sum(sizes)) + "!"
    assert [frame.final is not None for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert [frame.missed for frame in frames] == [0] * len(frames)
    assert frames[-1].seq == sum(sizes)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("detached", None), ("held", None), ("drained", "drained"), ("engine_lost", "engine_lost")],
)
def test_an_interruption_is_told_unless_the_reader_itself_ends_it(
    reason: SuspendReason, told: str | None
) -> None:
    frame = fold([LogEntry((2, 1), Suspended(2, "?", reason, Usage(3, 2)))], behind=2)
    assert (frame.interrupted, frame.text) == (told, "")


@given(sizes=SIZES, trimmed=st.integers(0, 30), behind=st.integers(0, 40))
def test_what_is_trimmed_is_counted_and_nothing_else(
    sizes: list[int], trimmed: int, behind: int
) -> None:
    log = log_of(sizes)
    seqs = {entry.position[0] for entry in log}
    behind = max(seq for seq in seqs if seq <= behind)
    left = [entry for entry in log[trimmed:] if entry.position[0] > behind] or log[-1:]
    frame: Frame = fold(left, behind=behind)
    assert frame.text == text_of(behind + frame.missed, frame.seq) + "!"
    gone = [e.entry for e in log[:trimmed] if isinstance(e.entry, Tokens)]
    lost = sum(len(entry.token_ids) for entry in gone if entry.seq > behind)
    assert frame.missed == lost
