"""What holds, releases, classes, cancels and short blocks do to vLLM's scheduler together, for any
order of them. Without a model; `test_classes.py` and `test_holding.py` have one.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.scheduling import Steps, token

# Without weights, and yet among these: vLLM changes the environment of whoever imports it.
pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

INTERACTIVE, STANDARD, BATCH = 0, 1, 2
SLOTS, BLOCKS = 3, 10


@pytest.fixture
def steps() -> Steps:
    return Steps(slots=SLOTS, blocks=20, floor=0.0)


def whole(name: str, tokens: int) -> list[int]:
    return [token(name, position) for position in range(tokens)]


def run_to_end(steps: Steps, most: int = 3_000) -> None:
    for _ in range(most):
        if not steps.unfinished:
            return
        assert steps.scheduler.get_num_unfinished_requests() > 0, "its loop would sleep"
        steps.step()
    raise AssertionError(f"{steps.unfinished} never end")


def test_a_step_has_no_more_than_the_slots_whoever_is_held(steps: Steps) -> None:
    for n in range(SLOTS):
        steps.submit(f"held-{n}", rank=BATCH, tokens=20)
    steps.step()
    for n in range(SLOTS):
        assert steps.scheduler.hold(f"held-{n}")
    for n in range(SLOTS):
        steps.submit(f"other-{n}", rank=BATCH, tokens=10)
    assert steps.step() == {f"other-{n}" for n in range(SLOTS)}
    for n in range(SLOTS):
        assert steps.scheduler.release(f"held-{n}")
    assert steps.step() == {f"other-{n}" for n in range(SLOTS)}, "of their class, they keep theirs"
    run_to_end(steps)
    assert all(len(batch) <= SLOTS for batch in steps.batches)
    assert steps.made["held-0"] == whole("held-0", 20)


def test_the_next_step_has_the_higher_class(steps: Steps) -> None:
    for n in range(SLOTS):
        steps.submit(f"batch-{n}", rank=BATCH, tokens=20)
    steps.step()
    steps.submit("higher", rank=INTERACTIVE, tokens=5)
    assert steps.step() == {"batch-0", "batch-1", "higher"}
    assert steps.scheduler.yielded() == (1, ["batch-2"])
    run_to_end(steps)
    assert steps.scheduler.yielded() == (1, [])
    assert {name: steps.made[name] for name in ("batch-2", "higher")} == {
        "batch-2": whole("batch-2", 20),
        "higher": whole("higher", 5),
    }


def test_the_parked_keep_their_blocks(steps: Steps) -> None:
    for n in range(SLOTS):
        steps.submit(f"batch-{n}", rank=BATCH, tokens=20, prompt=20)
    steps.step()
    steps.submit("higher", rank=INTERACTIVE, tokens=5)
    run_to_end(steps)
    prefills = sum("batch-2" in batch for batch in steps.batches)
    assert prefills == 20, "nothing of it was computed twice"


def test_a_higher_class_takes_blocks_as_it_takes_a_slot() -> None:
    """Two of three slots are taken, and all blocks."""
    steps = Steps(slots=SLOTS, blocks=6, floor=0.0)
    for n in range(2):
        steps.submit(f"batch-{n}", rank=BATCH, tokens=8, prompt=36)
    while not all(len(made) > 1 for made in steps.made.values()):
        steps.step()
    assert steps.free_blocks == 0
    steps.submit("same", rank=BATCH, tokens=3, prompt=40)
    assert "same" not in steps.step() | steps.step(), "of their own class"
    steps.submit("higher", rank=INTERACTIVE, tokens=3, prompt=40)
    assert "higher" in steps.step() | steps.step()
    assert {"batch-0", "batch-1"} <= steps.unfinished
    run_to_end(steps)
    assert steps.made["batch-1"] == whole("batch-1", 8)


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """What is done before each step: act, of which request, and what of it."""
    acts = st.tuples(
        st.sampled_from(("submit", "submit", "hold", "release", "abort", "step", "step", "step")),
        st.integers(0, 9),
        st.integers(0, 2),
    )
    return draw(st.lists(acts, min_size=5, max_size=60))


@pytest.mark.parametrize("floor", [0.0, 0.25])
@settings(max_examples=150, deadline=None)
@given(plan=plans())
def test_whatever_happens_all_are_answered_as_if_alone(
    floor: float, plan: list[tuple[str, int, int]]
) -> None:
    """With blocks for half of what they need together."""
    acting = Acting(Steps(slots=SLOTS, blocks=BLOCKS, floor=floor))
    for act, n, of in plan:
        getattr(acting, act)(n, of)
    steps = acting.steps
    for name in acting.held:
        assert steps.scheduler.release(name)
    run_to_end(steps)
    for name, count in acting.tokens.items():
        assert steps.made[name] == whole(name, count)
    assert steps.free_blocks == BLOCKS
    assert steps.scheduler.yielded()[1] == []
    assert steps.scheduler.held_shares() == {}


class Acting:
    """held; tokens: of those that are to be answered"""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.held: set[str] = set()
        self.tokens: dict[str, int] = {}

    def submit(self, n: int, of: int) -> None:
        name, tokens = f"r{len(self.steps.made)}", 5 + 9 * n
        self.tokens[name] = tokens
        self.steps.submit(name, rank=of, tokens=tokens, prompt=5 + 20 * of)

    def step(self, n: int, of: int) -> None:
        before = {name: len(self.steps.made[name]) for name in self.held}
        batch = self.steps.step()
        assert len(batch) <= SLOTS
        assert not batch & self.held
        assert before == {name: len(self.steps.made[name]) for name in self.held}

    def _chosen(self, n: int) -> str:
        names = sorted(self.tokens)
        return names[n % len(names)] if names else "nobody"

    def hold(self, n: int, of: int) -> None:
        name = self._chosen(n)
        if self.steps.scheduler.hold(name):
            self.held.add(name)

    def release(self, n: int, of: int) -> None:
        name = self._chosen(n)
        assert self.steps.scheduler.release(name) == (name in self.held)
        self.held.discard(name)

    def abort(self, n: int, of: int) -> None:
        name = self._chosen(n)
        if name in self.steps.unfinished:
            self.steps.abort(name)
            del self.tokens[name]
            self.held.discard(name)


def test_higher_traffic_without_end_leaves_a_lower_class_its_floor() -> None:
    steps, floor, rounds = Steps(slots=SLOTS, blocks=40, floor=0.1), 0.1, 2_000
    for n in range(4):
        steps.submit(f"batch-{n}", rank=BATCH, tokens=140)
    higher = 0
    for _ in range(rounds):
        running = sum(name.startswith("higher") for name in steps.unfinished)
        for _ in range(SLOTS + 1 - running):
            higher += 1
            steps.submit(f"higher-{higher}", rank=INTERACTIVE, tokens=15)
        steps.step()
    lower = sum(len(made) for name, made in steps.made.items() if name.startswith("batch"))
    above = sum(len(made) for name, made in steps.made.items() if name.startswith("higher"))
    assert lower == pytest.approx(min(4 * 140, floor * above), rel=0.1)
