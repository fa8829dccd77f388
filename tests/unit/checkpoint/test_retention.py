"""Which checkpoints are forgotten, and which never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.checkpoint.retention import Live, plan_retention


def _live(*steps: int) -> list[Live]:
    return [Live(f"{step}#{number}", step) for number, step in enumerate(steps)]


@pytest.mark.parametrize(
    ("steps", "keep_last", "keep_every", "pinned", "kept"),
    [
        ([], 3, None, [], []),
        ([10], 1, None, [], ["10#0"]),
        ([10, 20, 30], 1, None, [], ["30#2"]),
        ([10, 20, 30], 2, None, [], ["20#1", "30#2"]),
        ([10, 20, 30], 5, None, [], ["10#0", "20#1", "30#2"]),
        ([10, 20, 30], 1, None, ["10#0"], ["10#0", "30#2"]),
        ([10, 20, 30, 40, 50], 1, 20, [], ["20#1", "40#3", "50#4"]),
        # Saved by time, not by step: the first past each multiple.
        ([7, 19, 26, 38, 41, 55], 1, 20, [], ["26#2", "41#4", "55#5"]),
        # The run walked back from 40 and went on: its present is what it committed last.
        ([30, 40, 20, 25], 2, None, [], ["20#2", "25#3"]),
        # Step 20 was made anew: the later one is the milestone.
        ([20, 30, 20, 35], 1, 20, [], ["20#2", "35#3"]),
        ([0, 1], 1, 10, [], ["1#1"]),
    ],
)
def test_what_is_kept(
    steps: list[int], keep_last: int, keep_every: int | None, pinned: list[str], kept: list[str]
) -> None:
    live = _live(*steps)
    plan = plan_retention(live, keep_last=keep_last, keep_every=keep_every, pinned=frozenset(pinned))
    forgotten = {forget.checkpoint for forget in plan}
    assert [each.checkpoint for each in live if each.checkpoint not in forgotten] == kept


def test_the_reason_says_what_the_user_asked_for() -> None:
    live = _live(10, 20)
    (alone,) = plan_retention(live, keep_last=1, keep_every=None, pinned=frozenset())
    (both,) = plan_retention(live, keep_last=1, keep_every=1000, pinned=frozenset())
    assert alone.why == "only the last one is kept"
    assert both.why == "only the last one and one every 1000 steps are kept"


@pytest.mark.parametrize(("keep_last", "keep_every"), [(0, None), (-1, 5), (1, 0)])
def test_keeping_nothing_can_not_be_asked_for(keep_last: int, keep_every: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        plan_retention(_live(1, 2), keep_last=keep_last, keep_every=keep_every, pinned=frozenset())


STEPS = st.lists(st.integers(0, 200), max_size=30)
KEEP_EVERY = st.none() | st.integers(1, 50)


@given(STEPS, st.integers(1, 10), KEEP_EVERY, st.sets(st.integers(0, 29)))
def test_neither_the_newest_nor_a_pinned_one_is_ever_forgotten(
    steps: list[int], keep_last: int, keep_every: int | None, numbers: set[int]
) -> None:
    live = _live(*steps)
    pinned = frozenset(each.checkpoint for number, each in enumerate(live) if number in numbers)
    plan = plan_retention(live, keep_last=keep_last, keep_every=keep_every, pinned=pinned)
    forgotten = {forget.checkpoint for forget in plan}
    assert not forgotten & pinned
    assert not forgotten & {each.checkpoint for each in live[-keep_last:]}
    assert len(forgotten) == len(plan) <= max(0, len(live) - keep_last)
    assert forgotten <= {each.checkpoint for each in live}


@given(STEPS, st.integers(1, 10), KEEP_EVERY)
def test_what_was_kept_once_is_kept_by_the_same_plan_again(
    steps: list[int], keep_last: int, keep_every: int | None
) -> None:
    live = _live(*steps)
    plan = plan_retention(live, keep_last=keep_last, keep_every=keep_every, pinned=frozenset())
    forgotten = {forget.checkpoint for forget in plan}
    rest = [each for each in live if each.checkpoint not in forgotten]
    assert plan_retention(rest, keep_last=keep_last, keep_every=keep_every, pinned=frozenset()) == []


@given(st.lists(st.integers(1, 200), unique=True, max_size=30).map(sorted), KEEP_EVERY)
def test_a_milestone_stays_one_as_the_run_goes_on(steps: list[int], keep_every: int | None) -> None:
    kept: list[Live] = []
    milestones: set[str] = set()
    for live in _live(*steps):
        kept.append(live)
        plan = {f.checkpoint for f in plan_retention(kept, keep_last=1, keep_every=keep_every, pinned=frozenset())}
        kept = [each for each in kept if each.checkpoint not in plan]
        assert milestones <= {each.checkpoint for each in kept}
        milestones = {each.checkpoint for each in kept[:-1]}
