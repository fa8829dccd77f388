"""Laws of the time that is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.signals.time_left import (
    LAST_LOOK_S,
    LEAST_PAUSE_S,
    LONGEST_PAUSE_S,
    has_moved,
    next_look_s,
    take_bearing,
)

moments = st.floats(0, 1e9)
lengths = st.floats(0, 1e7)


@given(moments, moments, st.floats(-1e6, 1e6), lengths)
def test_a_clock_that_is_set_while_the_job_runs_moves_nothing(
    monotonic_s: float, wall_s: float, jump_s: float, later_s: float
) -> None:
    bearing = take_bearing(monotonic_s=monotonic_s, wall_s=wall_s, start_s=None)
    set_since = wall_s + later_s + jump_s  # what the wall clock says by then: nobody asks it
    reckoned = bearing.wall_s(monotonic_s + later_s)
    assert abs(reckoned - (wall_s + later_s)) < 1e-3
    assert abs((set_since - reckoned) - jump_s) < 1e-3


@given(moments, moments, lengths)
def test_a_clock_that_lags_is_found_out_by_the_jobs_start(monotonic_s: float, wall_s: float, lag_s: float) -> None:
    bearing = take_bearing(monotonic_s=monotonic_s, wall_s=wall_s, start_s=wall_s + lag_s)
    assert bearing.lag_s >= 0
    assert abs(bearing.wall_s(monotonic_s) - (wall_s + lag_s)) < 1e-3  # no later than the controller's


@given(moments, moments, lengths)
def test_a_job_that_started_before_proves_no_lag(monotonic_s: float, wall_s: float, ago_s: float) -> None:
    assert take_bearing(monotonic_s=monotonic_s, wall_s=wall_s, start_s=wall_s - ago_s).lag_s == 0


@given(moments, moments, moments)
def test_there_and_back_is_the_same_moment(monotonic_s: float, wall_s: float, there_s: float) -> None:
    bearing = take_bearing(monotonic_s=monotonic_s, wall_s=wall_s, start_s=None)
    assert abs(bearing.monotonic_s(bearing.wall_s(there_s)) - there_s) < 1e-3


@given(st.none() | st.floats(-1e6, 1e9))
def test_slurm_is_asked_neither_all_the_time_nor_never(left_s: float | None) -> None:
    pause_s = next_look_s(left_s)
    assert 5 < pause_s <= LONGEST_PAUSE_S
    if left_s is None or left_s > LAST_LOOK_S + LEAST_PAUSE_S:
        assert pause_s >= LEAST_PAUSE_S


@given(st.floats(60, 1e6))
def test_a_limit_that_is_lowered_to_half_is_noticed_in_time(left_s: float) -> None:
    assert next_look_s(left_s) <= left_s / 2 or next_look_s(left_s) == LEAST_PAUSE_S


@given(st.floats(26, 1e6))
def test_there_is_always_a_look_shortly_before_the_stop(left_s: float) -> None:
    looks = 0
    while left_s > LAST_LOOK_S + 5:
        left_s -= next_look_s(left_s)
        looks += 1
    assert left_s >= LAST_LOOK_S - 1e-3
    assert looks >= 1


def test_an_end_of_another_second_is_the_same_end() -> None:
    assert not has_moved(1000.0, 1001.0)
    assert has_moved(1000.0, 1060.0)
    assert has_moved(1000.0, 940.0)
    assert has_moved(None, 1000.0)
