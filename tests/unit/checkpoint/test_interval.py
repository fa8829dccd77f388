"""How often to save, and what that loses."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.interval import (
    LEAST_S,
    MOST_S,
    NODE_MTBF_S,
    Interval,
    best_interval,
    daly_s,
    expected_overhead,
    mean_time_between_failures_s,
    next_save,
    young_s,
)

law = settings(deadline=None, max_examples=200)
costs_s = st.floats(1e-3, 1e5)
mtbfs_s = st.floats(1.0, 1e9)
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("cost_s", "mtbf_s", "interval_s"),
    [
        # The three worked examples of Daly's paper: C = 5 min, M = 24 h, 6 h and 15 min.
        (300.0, 24 * HOUR_S, 117 * 60.0),
        (300.0, 6 * HOUR_S, 57 * 60.0),
        (300.0, 900.0, 9.1 * 60),
    ],
)
def test_the_examples_of_dalys_paper_come_out(cost_s: float, mtbf_s: float, interval_s: float) -> None:
    assert daly_s(cost_s, mtbf_s) == pytest.approx(interval_s, rel=0.01)


def test_where_a_save_takes_longer_than_two_failures_take_to_come_the_interval_is_that_between_failures() -> None:
    assert daly_s(200.0, 100.0) == 100.0
    assert daly_s(1e9, 100.0) == 100.0


@law
@given(costs_s, mtbfs_s)
def test_the_formula_is_the_one_in_the_paper(cost_s: float, mtbf_s: float) -> None:
    if cost_s >= 2 * mtbf_s:
        return
    ratio = cost_s / (2 * mtbf_s)
    young = math.sqrt(2 * cost_s * mtbf_s)
    assert daly_s(cost_s, mtbf_s) == pytest.approx(young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_s, rel=1e-6)
    assert young_s(cost_s, mtbf_s) == pytest.approx(young)
    assert daly_s(cost_s, mtbf_s) <= young


@law
@given(costs_s, mtbfs_s)
def test_no_other_interval_wastes_more_than_two_percent_less(cost_s: float, mtbf_s: float) -> None:
    if cost_s >= 2 * mtbf_s:
        return
    candidates = (daly_s(cost_s, mtbf_s) * factor / 100 for factor in range(30, 300, 2))
    least = min(expected_overhead(each, cost_s=cost_s, mtbf_s=mtbf_s) for each in candidates)
    chosen = expected_overhead(daly_s(cost_s, mtbf_s), cost_s=cost_s, mtbf_s=mtbf_s)
    assert chosen <= least * 1.02


@pytest.mark.parametrize(("cost_s", "mtbf_s"), [(5.0, 1000.0), (60.0, 900.0), (300.0, 900.0)])
def test_a_simulated_training_loses_what_the_formula_expects(cost_s: float, mtbf_s: float) -> None:
    """Thrown dice: segments of work and a save, begun again whenever a failure comes first."""
    dice = random.Random(7)
    interval_s = daly_s(cost_s, mtbf_s)
    segments, spent_s = 20_000, 0.0
    for _ in range(segments):
        while (failure_s := dice.expovariate(1 / mtbf_s)) < interval_s + cost_s:
            spent_s += failure_s
        spent_s += interval_s + cost_s
    overhead = spent_s / (segments * interval_s) - 1
    assert overhead == pytest.approx(expected_overhead(interval_s, cost_s=cost_s, mtbf_s=mtbf_s), rel=0.05)


@law
@given(costs_s, costs_s, mtbfs_s)
def test_a_save_that_costs_more_is_never_made_more_often(cost_s: float, other_s: float, mtbf_s: float) -> None:
    cheap, dear = sorted((cost_s, other_s))
    assert daly_s(cheap, mtbf_s) <= daly_s(dear, mtbf_s) * (1 + 1e-9)
    assert best_interval(cheap, mtbf_s).seconds <= best_interval(dear, mtbf_s).seconds * (1 + 1e-9)


@law
@given(costs_s, mtbfs_s, mtbfs_s)
def test_rarer_failures_never_make_saves_more_frequent(cost_s: float, mtbf_s: float, other_s: float) -> None:
    often, rarely = sorted((mtbf_s, other_s))
    if often * 2 <= cost_s < rarely * 2:
        return  # between the formula's two branches, where nothing is computed any more
    assert daly_s(cost_s, often) <= daly_s(cost_s, rarely) * (1 + 1e-9)
    assert best_interval(cost_s, often).seconds <= best_interval(cost_s, rarely).seconds * (1 + 1e-9)


@law
@given(
    st.none() | st.floats(0, 1e300),
    st.floats(min_value=0, exclude_min=True, allow_infinity=True, allow_nan=False),
    st.floats(1e-3, 1e6),
    st.floats(1, 1e6),
)
def test_an_interval_is_always_within_bounds_and_never_nothing(
    cost_s: float | None, mtbf_s: float, least_s: float, factor: float
) -> None:
    interval = best_interval(cost_s, mtbf_s, least_s=least_s, most_s=least_s * factor)
    assert 0 < least_s <= interval.seconds <= least_s * factor < math.inf
    assert interval.why


@pytest.mark.parametrize(
    ("cost_s", "mtbf_s", "seconds", "words"),
    [
        (None, 1e6, LEAST_S, "isn't known yet"),
        (0.0, math.inf, LEAST_S, "more often than is allowed"),
        (0.0, 1e6, LEAST_S, "more often than is allowed"),
        (10.0, math.inf, MOST_S, "less often than is allowed"),
        (100.0, 50 * 86_400.0, MOST_S, "less often than is allowed"),
        (0.1, 50 * 86_400.0, pytest.approx(929.5, rel=1e-3), "a failure is expected every 50 days: every 15.5 min"),
    ],
)
def test_the_interval_says_why(cost_s: float | None, mtbf_s: float, seconds: float, words: str) -> None:
    interval = best_interval(cost_s, mtbf_s)
    assert interval.seconds == seconds
    assert words in interval.why


@pytest.mark.parametrize(("cost_s", "mtbf_s"), [(-1.0, 10.0), (math.nan, 10.0), (1.0, 0.0), (1.0, math.nan)])
def test_impossible_measurements_are_refused(cost_s: float, mtbf_s: float) -> None:
    with pytest.raises(ValueError, match="impossible"):
        best_interval(cost_s, mtbf_s)


@pytest.mark.parametrize(("least_s", "most_s"), [(0.0, 10.0), (20.0, 10.0), (1.0, math.inf), (math.nan, 10.0)])
def test_bounds_that_allow_nothing_are_refused(least_s: float, most_s: float) -> None:
    with pytest.raises(ValueError, match="can't be meant"):
        best_interval(1.0, 1000.0, least_s=least_s, most_s=most_s)


def test_without_experience_the_expectation_is_the_sites() -> None:
    assert mean_time_between_failures_s(nodes=1, failures=0, observed_s=0) == NODE_MTBF_S
    assert mean_time_between_failures_s(nodes=100, failures=0, observed_s=0) == NODE_MTBF_S / 100


@law
@given(st.integers(1, 10_000), st.integers(0, 100), st.floats(0, 1e9), st.floats(1, 1e12))
def test_experience_lies_between_the_prior_and_what_was_seen(
    nodes: int, failures: int, observed_s: float, node_mtbf_s: float
) -> None:
    def expected_s(failures: int, observed_s: float) -> float:
        return mean_time_between_failures_s(
            nodes=nodes, failures=failures, observed_s=observed_s, node_mtbf_s=node_mtbf_s
        )

    mtbf_s = expected_s(failures, observed_s)
    prior_s = node_mtbf_s / nodes
    seen_s = observed_s / failures if failures else math.inf
    assert min(prior_s, seen_s) * (1 - 1e-9) <= mtbf_s <= max(prior_s, seen_s) * (1 + 1e-9)
    assert expected_s(failures + 1, observed_s) < mtbf_s
    assert expected_s(failures, observed_s + 1e6) > mtbf_s * (1 - 1e-9)


def test_many_failures_outweigh_the_prior() -> None:
    seen_s = mean_time_between_failures_s(
        nodes=1, failures=10_000, observed_s=10_000 * HOUR_S, node_mtbf_s=1000 * HOUR_S
    )
    assert seen_s == pytest.approx(1.1 * HOUR_S, rel=1e-3)


@pytest.mark.parametrize(
    ("nodes", "failures", "observed_s", "node_mtbf_s"),
    [(0, 0, 0.0, 1.0), (1, -1, 0.0, 1.0), (1, 0, math.nan, 1.0), (1, 0, 0.0, 0.0), (1, 0, 0.0, math.inf)],
)
def test_impossible_experience_is_refused(nodes: int, failures: int, observed_s: float, node_mtbf_s: float) -> None:
    with pytest.raises(ValueError, match="impossible"):
        mean_time_between_failures_s(nodes=nodes, failures=failures, observed_s=observed_s, node_mtbf_s=node_mtbf_s)


@pytest.mark.parametrize(
    ("last_s", "end_s", "due_s"),
    [
        (1000.0, math.inf, 1600.0),  # nobody knows of an end
        (1000.0, 2000.0, 1600.0),  # there is time for the regular one
        (1600.0, 2000.0, 1960.0),  # the next regular one would come too late: the last moment
        (1000.0, 1640.0, 1600.0),  # the regular one is the last moment
        (1000.0, 1620.0, 1580.0),
        (1850.0, 2000.0, 2450.0),  # the last one is only 110 s older than the last moment
        (1850.0, 2100.0, 2060.0),  # 210 s: worth it
        (2500.0, 2000.0, 3100.0),  # behind the end, which didn't come: the rhythm goes on
    ],
)
def test_the_last_moment_before_the_time_limit_is_not_missed(last_s: float, end_s: float, due_s: float) -> None:
    following = next_save(last_s, Interval(600.0, "because"), end_s=end_s, saving_s=30.0, margin_s=10.0)
    assert following.due_s == due_s
    assert ("time limit" in following.why) is (due_s < last_s + 600)


@law
@given(st.floats(0, 1e6), st.floats(1, 1e4), st.floats(0, 1e6), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_time_limit_never_delays_a_save_nor_makes_one_come_at_once_again(
    last_s: float, seconds: float, end_s: float, saving_s: float, margin_s: float
) -> None:
    following = next_save(last_s, Interval(seconds, ""), end_s=end_s, saving_s=saving_s, margin_s=margin_s)
    assert last_s + seconds / 4 <= following.due_s <= last_s + seconds
    if following.due_s < last_s + seconds:
        assert following.due_s + saving_s + margin_s <= end_s + 1e-6
