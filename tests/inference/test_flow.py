"""Credit, for any order of what is heard of readers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.host.flow import Flow
from inference.messages import Detached

GRACE_S = 30.0
READERS = ("rdr_a", "rdr_b")
POLICIES: list[Detached] = ["hold", "finish", "cancel"]

# ("read", reader, seq, mark), ("left", reader), ("wait", seconds), ("make", most tokens)
HEARD = st.lists(
    st.one_of(
        st.tuples(
            st.just("read"), st.sampled_from(READERS), st.integers(0, 60), st.integers(1, 16)
        ),
        st.tuples(st.just("left"), st.sampled_from(READERS)),
        st.tuples(st.just("wait"), st.integers(0, 20)),
        st.tuples(st.just("make"), st.integers(1, 30)),
    ),
    max_size=60,
)


class Made:
    """A generation whose engine holds as its flow says, one token at a time."""

    def __init__(self, mark: int, policy: Detached) -> None:
        self.flow = Flow(mark, policy, seen_at=0.0)
        self.now = 0.0
        self.made = 0
        self.furthest = 0
        self.largest_mark = mark

    def heard(self, event: tuple[object, ...]) -> None:
        getattr(self, str(event[0]))(*event[1:])
        if self.flow.may_go_on(self.made):
            self.flow.held = False

    def read(self, reader: str, seq: int, mark: int) -> None:
        # Nobody has read what is not made.
        seq = min(seq, self.made)
        self.furthest = max(self.furthest, seq)
        self.largest_mark = max(self.largest_mark, mark)
        self.flow.read(seq, mark, reader=reader, now=self.now)

    def left(self, reader: str) -> None:
        self.flow.left(reader)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def make(self, most: int) -> None:
        for _ in range(most):
            if self.flow.held:
                return
            self.made += 1
            self.flow.held = self.flow.must_hold(self.made)


@given(mark=st.integers(1, 16), policy=st.sampled_from(["hold", "cancel"]), events=HEARD)
def test_nothing_runs_further_ahead_than_a_readers_mark(
    mark: int, policy: Detached, events: list[tuple[object, ...]]
) -> None:
    one = Made(mark, policy)
    for event in events:
        consumed = one.flow.consumed
        one.heard(event)
        assert one.flow.consumed >= consumed, "credit was taken back"
        assert one.flow.consumed == one.furthest
        assert one.made <= max(1, one.furthest + one.largest_mark)


@given(mark=st.integers(1, 16), policy=st.sampled_from(POLICIES), events=HEARD)
def test_a_reader_that_has_read_everything_lets_it_go_on(
    mark: int, policy: Detached, events: list[tuple[object, ...]]
) -> None:
    one = Made(mark, policy)
    for event in events:
        one.heard(event)
    one.heard(("read", "rdr_a", one.made, mark))
    assert not one.flow.held
    before = one.made
    one.make(1)
    assert one.made == before + 1
    assert not one.flow.is_detached(now=one.now + GRACE_S, grace_s=GRACE_S)
    assert one.flow.is_detached(now=one.now + GRACE_S + 1, grace_s=GRACE_S)


@given(mark=st.integers(1, 16), events=HEARD)
def test_what_needs_no_reader_goes_on_once_all_have_left(
    mark: int, events: list[tuple[object, ...]]
) -> None:
    one = Made(mark, "finish")
    for event in events:
        one.heard(event)
    for reader in READERS:
        one.heard(("left", reader))
    before = one.made
    one.make(100)
    assert one.made == before + 100
    assert not one.flow.is_detached(now=one.now + 10 * GRACE_S, grace_s=GRACE_S)


def test_when_the_last_reader_leaves_it_is_held_at_its_next_token() -> None:
    one = Made(16, "hold")
    for event in (("read", "rdr_a", 0, 16), ("read", "rdr_b", 0, 16), ("left", "rdr_a")):
        one.heard(event)
    one.make(1)
    assert not one.flow.held
    one.heard(("left", "rdr_b"))
    one.make(5)
    assert (one.made, one.flow.held) == (2, True)
    # A message that was on its way when it left may come behind it: then the grace decides.
    one.heard(("read", "rdr_b", 1, 16))
    assert not one.flow.held


def test_a_release_is_worth_its_message() -> None:
    one = Made(16, "hold")
    one.make(100)
    assert (one.made, one.flow.held) == (16, True)
    one.heard(("read", "rdr_a", 7, 16))
    assert one.flow.held
    one.heard(("read", "rdr_a", 8, 16))
    assert not one.flow.held
