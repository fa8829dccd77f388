"""Which checkpoints are forgotten, and which never."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.retention import Live, MetricMode, Plan, Policy, plan_retention

law = settings(deadline=None)


def _live(*steps: int) -> list[Live]:
    return [Live(f"{step}#{number}", step) for number, step in enumerate(steps)]


def _kept(plan: Plan) -> list[str]:
    return [keep.checkpoint for keep in plan.keep]


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
        # The run walked back from 40 and went on: its present is what it committed last, and 40 is what loads.
        ([30, 40, 20, 25], 2, None, [], ["40#1", "20#2", "25#3"]),
        # Step 20 was made anew: the later one is the milestone.
        ([20, 30, 20, 35], 1, 20, [], ["20#2", "35#3"]),
        ([0, 1], 1, 10, [], ["1#1"]),
        # Of two at the highest step the later one loads.
        ([40, 40, 30], 1, None, [], ["40#1", "30#2"]),
    ],
)
def test_what_is_kept(
    steps: list[int], keep_last: int, keep_every: int | None, pinned: list[str], kept: list[str]
) -> None:
    live = [replace(each, pinned="mine" if each.checkpoint in pinned else None) for each in _live(*steps)]
    assert _kept(plan_retention(live, Policy(keep_last, keep_every))) == kept


@pytest.mark.parametrize(
    ("metrics", "keep_best", "mode", "kept"),
    [
        ([3.0, 1.0, 2.0, 4.0], 1, "min", ["20#1", "40#3"]),
        ([3.0, 1.0, 2.0, 4.0], 2, "min", ["20#1", "30#2", "40#3"]),
        ([3.0, 1.0, 2.0, 0.0], 1, "max", ["10#0", "40#3"]),
        ([3.0, 1.0, 2.0, 4.0], 0, "min", ["40#3"]),
        ([None, 9.0, None, None], 3, "min", ["20#1", "40#3"]),
        ([math.nan, 9.0, math.nan, 8.0], 1, "max", ["20#1", "40#3"]),
        ([math.nan] * 4, 2, "min", ["40#3"]),
        ([1.0, 1.0, 1.0, 2.0], 1, "min", ["30#2", "40#3"]),  # of equals the later
        ([-math.inf, 1.0, 1.0, 1.0], 1, "min", ["10#0", "40#3"]),
    ],
)
def test_the_best_are_kept_by_their_metric(
    metrics: list[float | None], keep_best: int, mode: MetricMode, kept: list[str]
) -> None:
    live = [replace(each, metric=metric) for each, metric in zip(_live(10, 20, 30, 40), metrics, strict=True)]
    assert _kept(plan_retention(live, Policy(1, keep_best=keep_best, metric_mode=mode))) == kept


def test_the_last_verified_one_stays_until_a_newer_one_is_verified() -> None:
    live = [replace(each, verified=each.step in (10, 20)) for each in _live(10, 20, 30, 40)]
    assert _kept(plan_retention(live, Policy(1))) == ["20#1", "40#3"]
    assert _kept(plan_retention([*live, Live("50#4", 50, verified=True)], Policy(1))) == ["50#4"]


def test_the_reason_says_what_the_user_asked_for() -> None:
    live = _live(10, 20)
    alone = plan_retention(live, Policy(1))
    both = plan_retention(live, Policy(1, 1000))
    all_three = plan_retention(live, Policy(1, 1000, 2))
    assert alone.forget[0].why == "only the last one is kept"
    assert both.forget[0].why == "only the last one and one every 1000 steps are kept"
    assert all_three.forget[0].why == "only the last one, the best 2 and one every 1000 steps are kept"
    assert plan_retention(_live(1, 2, 3), Policy(2, keep_best=1)).forget[0].why == (
        "only the last 2 and the best one are kept"
    )


def test_what_stays_says_every_reason() -> None:
    live = [Live("a", 1000, metric=0.25, verified=True, pinned="for the paper"), Live("b", 1500)]
    first, newest = plan_retention(live, Policy(1, 500, 1)).keep
    assert first.why == (
        "the last that was verified, pinned: for the paper, number 1 of the best (metric 0.25), "
        "the first from step 1000 on"
    )
    assert newest.why == "the newest, a resume loads it, one of the last 1, the first from step 1500 on"


@pytest.mark.parametrize(
    "policy",
    [
        {"keep_last": 0},
        {"keep_last": -1, "keep_every": 5},
        {"keep_last": 1, "keep_every": 0},
        {"keep_last": 1, "keep_best": -1},
    ],
)
def test_keeping_nothing_can_not_be_asked_for(policy: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Policy(**policy)


def test_a_metric_is_best_where_it_is_least_or_where_it_is_greatest_and_nowhere_else() -> None:
    with pytest.raises(ValueError, match="min or max"):
        Policy(1, metric_mode="best")  # type: ignore[arg-type]


policies = st.builds(
    Policy, st.integers(1, 10), st.none() | st.integers(1, 50), st.integers(0, 4), st.sampled_from(["min", "max"])
)


@st.composite
def lives(draw: st.DrawFn) -> list[Live]:
    steps = draw(st.lists(st.integers(0, 200), max_size=30))
    metrics = st.none() | st.just(math.nan) | st.floats(-10, 10)
    return [
        replace(each, metric=draw(metrics), verified=draw(st.booleans()), pinned=draw(st.none() | st.just("")))
        for each in _live(*steps)
    ]


@law
@given(lives(), policies)
def test_what_must_stay_is_never_forgotten_whatever_is_asked_for(live: list[Live], policy: Policy) -> None:
    plan = plan_retention(live, policy)
    forgotten = {forget.checkpoint for forget in plan.forget}
    must_stay = {each.checkpoint for each in live[-policy.keep_last :]}
    must_stay |= {each.checkpoint for each in live if each.pinned is not None}
    must_stay |= {each.checkpoint for each in [each for each in live if each.verified][-1:]}
    if live:
        must_stay.add(max(enumerate(live), key=lambda numbered: (numbered[1].step, numbered[0]))[1].checkpoint)
    assert not forgotten & must_stay
    assert len(forgotten) <= max(0, len(live) - policy.keep_last)


@law
@given(lives(), policies)
def test_every_checkpoint_is_either_kept_or_forgotten_in_order_with_a_reason(live: list[Live], policy: Policy) -> None:
    plan = plan_retention(live, policy)
    order = {each.checkpoint: number for number, each in enumerate(live)}
    for half in (plan.keep, plan.forget):
        numbers = [order[each.checkpoint] for each in half]
        assert numbers == sorted(numbers)
        assert all(each.why for each in half)
    assert sorted([*_kept(plan), *(forget.checkpoint for forget in plan.forget)]) == sorted(order)


@law
@given(lives(), policies)
def test_what_was_kept_once_is_kept_by_the_same_plan_again(live: list[Live], policy: Policy) -> None:
    kept = set(_kept(plan_retention(live, policy)))
    rest = [each for each in live if each.checkpoint in kept]
    assert plan_retention(rest, policy).forget == ()


@law
@given(lives(), policies)
def test_nothing_without_a_number_is_kept_for_being_best(live: list[Live], policy: Policy) -> None:
    known = {each.checkpoint for each in live if each.metric is not None and not math.isnan(each.metric)}
    best = [keep.checkpoint for keep in plan_retention(live, policy).keep if "of the best" in keep.why]
    assert set(best) <= known
    assert len(best) == min(policy.keep_best, len(known))


@law
@given(st.lists(st.integers(1, 200), unique=True, max_size=30).map(sorted), st.none() | st.integers(1, 50))
def test_a_milestone_stays_one_as_the_run_goes_on(steps: list[int], keep_every: int | None) -> None:
    kept: list[Live] = []
    milestones: set[str] = set()
    for live in _live(*steps):
        kept.append(live)
        names = set(_kept(plan_retention(kept, Policy(1, keep_every))))
        kept = [each for each in kept if each.checkpoint in names]
        assert milestones <= names
        milestones = {each.checkpoint for each in kept[:-1]}
