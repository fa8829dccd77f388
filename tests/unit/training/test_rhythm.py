"""When the next periodic save is due."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.interval import NODE_MTBF_S
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveReason,
    StopAsked,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.training.rhythm import (
    ANNOUNCED,
    RETRY_AFTER_S,
    AutoInterval,
    Experience,
    SaveRhythm,
    TimeLimit,
)

law = settings(deadline=None)
DAY_S = 86_400.0


def told(*records: tuple[float, Record]) -> Chain:
    lines: list[tuple[float, Record]] = [(0.0, RunCreated(RunId("r1"), "night shift")), *records]
    return Chain.of([Line(seq, time_s, record) for seq, (time_s, record) in enumerate(lines, 1)])


def started(attempt: int) -> AttemptStarted:
    return AttemptStarted(attempt, "batch", (), "host")


def ended(attempt: int, cause: Cause) -> AttemptEnded:
    return AttemptEnded(attempt, cause, "", (), "requeue", "", 1)


def saved(step: int, attempt: int, stall_s: float | None = None) -> CheckpointCommitted:
    name = checkpoint_id(step, attempt)
    return CheckpointCommitted(name, step, attempt, SaveReason.PERIODIC, 1, (), 1.0, stall_s=stall_s)


def test_by_minutes_the_next_one_is_due_that_long_after_the_last() -> None:
    rhythm = SaveRhythm(600.0, None).started(1000.0)
    assert not rhythm.due_by_time(1599.0)
    assert rhythm.due_by_time(1600.0)
    assert rhythm.saved(2000.0, cost_s=500.0).due_s == 2600.0
    assert rhythm.why == "every 600 s, as asked for"


def test_without_minutes_no_time_makes_one_due() -> None:
    rhythm = SaveRhythm(None, 10).started(1000.0)
    assert not rhythm.due_by_time(1e12)
    assert not SaveRhythm(None, 10, limit=TimeLimit(2000.0)).started(1000.0).due_by_time(1e12)
    assert [step for step in range(25) if rhythm.due_by_steps(step)] == [10, 20]


def test_a_save_that_failed_is_tried_again_soon_and_not_later_than_the_next() -> None:
    rhythm = SaveRhythm(600.0, None).started(1000.0)
    assert rhythm.failed(2000.0).due_s == 2000.0 + RETRY_AFTER_S
    assert SaveRhythm(5.0, None).failed(2000.0).due_s == 2005.0
    assert SaveRhythm(None, 10).failed(2000.0).due_s == 2000.0 + RETRY_AFTER_S


def test_the_first_automatic_save_comes_early_and_the_next_when_its_cost_says() -> None:
    rhythm = SaveRhythm(None, None, auto=AutoInterval(50 * DAY_S)).started(0.0)
    assert rhythm.due_s == 60.0
    assert "isn't known yet" in rhythm.why
    rhythm = rhythm.saved(60.0, cost_s=0.1)
    assert rhythm.due_s == pytest.approx(60 + 929.5, rel=1e-3)
    assert "Daly" in rhythm.why


def test_a_save_whose_cost_nobody_measured_changes_nothing() -> None:
    rhythm = SaveRhythm(None, None, auto=AutoInterval(50 * DAY_S, cost_s=0.1)).started(0.0)
    assert rhythm.saved(0.0).due_s == rhythm.due_s


def test_one_slow_save_among_fast_ones_is_soon_outweighed() -> None:
    rhythm = SaveRhythm(None, None, auto=AutoInterval(50 * DAY_S)).saved(0.0, cost_s=2.0)
    for _ in range(10):
        rhythm = rhythm.saved(0.0, cost_s=0.1)
    assert rhythm.due_s == pytest.approx(929.5, rel=0.02)
    assert rhythm.saved(0.0, cost_s=-0.001).due_s > 60.0  # noise around nothing


def test_the_last_moment_before_the_time_limit_is_due_with_the_time_that_a_save_takes() -> None:
    rhythm = SaveRhythm(600.0, None, limit=TimeLimit(end_s=3000.0, margin_s=30.0)).started(1000.0)
    assert rhythm.due_s == 1600.0
    late = rhythm.saved(2500.0, saving_s=20.0)
    assert late.due_s == 2950.0
    assert "time limit" in late.why


@law
@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(1.0, 1e9))
def test_an_automatic_save_is_always_due_within_the_bounds(now_s: float, cost_s: float, mtbf_s: float) -> None:
    rhythm = SaveRhythm(None, None, auto=AutoInterval(mtbf_s, least_s=30.0, most_s=300.0)).saved(now_s, cost_s=cost_s)
    assert now_s + 30.0 <= rhythm.due_s <= now_s + 300.0


def test_only_ends_that_nobody_announced_are_failures() -> None:
    causes = [*Cause]
    records: list[tuple[float, Record]] = []
    for number, cause in enumerate(causes, 1):
        records += [(100.0 * number, started(number)), (100.0 * number + 10, ended(number, cause))]
    chain = told(*records, (9000.0, started(len(causes) + 1)))
    assert Experience.of(chain) == Experience(len(causes) - len(ANNOUNCED), 10.0 * len(causes), None)
    unannounced = {cause.name for cause in Cause if cause not in ANNOUNCED}
    assert unannounced == {
        *("NODE_FAILURE", "OUT_OF_MEMORY", "CRASHED", "HUNG", "STORAGE", "SUPERVISOR_DIED", "FENCED", "UNKNOWN"),
    }


def test_an_end_that_nobody_told_is_a_failure_seen_until_the_last_checkpoint() -> None:
    chain = told((100.0, started(1)), (150.0, saved(10, 1)), (90_000.0, started(2)), (90_100.0, saved(20, 2)))
    assert Experience.of(chain) == Experience(1, 50.0, None)


@pytest.mark.parametrize("word", [StopAsked(1, "WARNING", "SIGUSR1 came"), TrainingFinished(1, 10)])
def test_an_attempt_without_a_supervisor_that_has_stopped_in_order_or_finished_is_no_failure(word: Record) -> None:
    chain = told((100.0, started(1)), (150.0, saved(10, 1)), (151.0, word), (90_000.0, started(2)))
    assert Experience.of(chain) == Experience(0, 50.0, None)


def test_what_saves_cost_is_the_median_of_all_attempts() -> None:
    stalls = [5.0, 0.2, 0.1, None, 0.2, 0.3]
    records = [(100.0 + step, saved(step, 1, stall_s)) for step, stall_s in enumerate(stalls)]
    assert Experience.of(told((100.0, started(1)), *records)).cost_s == 0.2


def test_a_run_that_has_only_begun_expects_what_the_site_expects() -> None:
    experience = Experience.of(told((100.0, started(1))))
    assert experience == Experience(0, 0.0, None)
    assert AutoInterval.after(experience, nodes=4).mtbf_s == NODE_MTBF_S / 4


def test_bounds_that_allow_nothing_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="can't be meant"):
        AutoInterval.after(Experience(0, 0.0, None), nodes=1, least_s=100.0, most_s=10.0)
    with pytest.raises(ValueError, match="impossible"):
        AutoInterval.after(Experience(0, 0.0, None), nodes=1, node_mtbf_s=math.nan)


def test_an_end_that_moves_moves_the_last_moment_with_it() -> None:
    rhythm = SaveRhythm(600.0, None, limit=TimeLimit(end_s=9000.0)).started(1000.0)
    assert rhythm.due_s == 1600.0
    nearer = rhythm.bounded(TimeLimit(end_s=1500.0))
    assert nearer.due_s == 1470.0
    assert "time limit" in nearer.why
    assert nearer.bounded(TimeLimit(end_s=9000.0)).due_s == 1600.0  # counted from where the interval began
    assert nearer.bounded(None).due_s == 1600.0


def test_an_end_that_is_read_from_two_clocks_has_not_moved_by_less_than_a_second() -> None:
    rhythm = SaveRhythm(600.0, None, limit=TimeLimit(end_s=1500.0)).started(1000.0)
    assert rhythm.bounded(TimeLimit(end_s=1500.4)) is rhythm
    assert SaveRhythm(600.0, None).bounded(None) == SaveRhythm(600.0, None)


def test_more_time_does_not_put_off_the_next_try_of_a_save_that_failed() -> None:
    failed = SaveRhythm(600.0, None, limit=TimeLimit(end_s=9000.0)).started(1000.0).failed(1000.0)
    assert failed.due_s == 1000.0 + RETRY_AFTER_S
    assert failed.bounded(TimeLimit(end_s=99_000.0)).due_s == failed.due_s


@law
@given(
    st.floats(1.0, 10_000.0),
    st.floats(0.0, 1e6),
    st.lists(st.none() | st.floats(0.0, 1e6).map(TimeLimit), min_size=1, max_size=4),
)
def test_however_the_end_has_moved_before_what_is_due_follows_from_where_it_is(
    every_s: float, now_s: float, ends: list[TimeLimit | None]
) -> None:
    rhythm = SaveRhythm(every_s, None).started(now_s)
    for end in ends:
        rhythm = rhythm.bounded(end)
    expected = SaveRhythm(every_s, None, limit=rhythm.limit).started(now_s)
    assert rhythm.due_s == expected.due_s
