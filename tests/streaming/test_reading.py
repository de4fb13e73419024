"""Where readers are, and what replicas are told of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.messages import Reading
from streaming.reading import PRESENCE_S, Reader, Report

GRACE_S = 30.0

# ("given", tokens), ("read", position), ("wait", seconds), ("told",)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("given"), st.integers(1, 40)),
        st.tuples(st.just("read"), st.integers(0, 1_000)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("told")),
    ),
    max_size=60,
)


class Client:
    """A reader whose transport is given frames while it has room, and its report."""

    def __init__(self, mark: int) -> None:
        self.reader = Reader(mark, moved_at=0.0)
        self.report = Report()
        self.now = 0.0
        self.told: list[Reading] = []

    def step(self, what: str, number: float = 0) -> None:
        if what == "given" and self.reader.has_room:
            self.reader.was_given(self.reader.given + int(number))
        elif what == "read":
            self.reader.has_read(int(number), now=self.now)
        elif what == "wait":
            self.now += number
        elif what == "told" and (message := self.tell()):
            self.told.append(message)

    def tell(self) -> Reading | None:
        return self.report.due(
            "gen_a", [self.reader], process="rdr_a", now=self.now, grace_s=GRACE_S
        )


@given(mark=st.integers(1, 300), steps=STEPS)
def test_positions_only_go_forward_and_never_beyond_what_was_given(
    mark: int, steps: list[tuple[object, ...]]
) -> None:
    client = Client(mark)
    for step in steps:
        consumed = client.reader.consumed
        client.step(*step)  # type: ignore[arg-type]
        assert consumed <= client.reader.consumed <= client.reader.given
        # One frame beyond the mark at most.
        assert client.reader.given - client.reader.consumed < mark + 40
    seqs = [message.seq for message in client.told]
    assert seqs == sorted(seqs)


@given(mark=st.integers(1, 300), steps=STEPS)
def test_one_that_is_there_is_told_within_the_presence(
    mark: int, steps: list[tuple[object, ...]]
) -> None:
    client = Client(mark)
    for step in steps:
        client.step(*step)  # type: ignore[arg-type]
    client.reader.has_read(client.reader.given, now=client.now)
    client.now += PRESENCE_S
    message = client.tell()
    assert message is not None
    assert message.seq == client.reader.consumed
    assert client.tell() is None


@given(mark=st.integers(1, 300), steps=STEPS)
def test_what_is_left_untold_is_less_than_what_a_release_is_worth(
    mark: int, steps: list[tuple[object, ...]]
) -> None:
    """Else a held generation and its reader would wait for each other until the next presence."""
    client = Client(mark)
    client.step("told")
    for step in steps:
        client.step(*step)  # type: ignore[arg-type]
    client.tell()
    if client.reader.is_there(now=client.now, grace_s=GRACE_S):
        assert client.reader.consumed - client.report.seq < max(1, mark // 8)


@given(mark=st.integers(1, 300), waited=st.floats(GRACE_S + 0.1, 10_000))
def test_one_that_was_given_something_and_reads_nothing_is_as_good_as_away(
    mark: int, waited: float
) -> None:
    client = Client(mark)
    client.step("given", 1)
    client.now += waited
    assert client.tell() is None
    client.reader.has_read(1, now=client.now)
    assert client.tell() is not None


def test_of_several_the_furthest_that_is_there_counts() -> None:
    away, slow, quick = (Reader(mark, moved_at=0.0) for mark in (16, 32, 64))
    for reader, read in ((away, 20), (slow, 5), (quick, 9)):
        reader.was_given(30)
        reader.has_read(read, now=0.0 if reader is away else 100.0)
    message = Report().due("gen_a", [away, slow, quick], process="r", now=101.0, grace_s=GRACE_S)
    assert message == Reading("gen_a", "r", seq=9, high_water_tokens=64)
