"""What counts, and since when."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.budget import Budget, Use, budget_of, limit_of
from slurm_resilience.requeue.history import FREE, History, history_so_far, history_with, uses, uses_of
from slurm_resilience.requeue.limits import Limits
from tests.unit.requeue.chains import Told, chain_of, checkpoint

ENDING = Told(cause=None)


def counted(*attempts: Told, cause: Cause = Cause.CRASHED) -> History:
    return history_with(chain_of(*attempts), len(attempts), cause)


@pytest.mark.parametrize(
    ("before", "cause", "expected"),
    [
        ([], Cause.CRASHED, History(1, crashes=1)),
        ([], Cause.UNKNOWN, History(1, crashes=1)),
        ([], Cause.HUNG, History(1, hangs=1)),
        ([], Cause.STORAGE, History(1, storage_faults=1)),
        ([], Cause.OUT_OF_MEMORY, History(1, out_of_memory=1)),
        ([], Cause.NODE_FAILURE, History(1, node_failures=1)),
        ([], Cause.LAUNCH_FAILED, History(1, never_started=1)),
        ([], Cause.NEVER_STARTED, History(1, never_started=1)),
        ([], Cause.TIME_LIMIT, History(1)),
        ([], Cause.WARNED, History(1)),
        ([], Cause.SUPERVISOR_DIED, History(1)),
        ([], Cause.PREEMPTED, History()),
        ([], Cause.REQUEUED_BY_HAND, History()),
        ([Told(Cause.PREEMPTED), Told(Cause.HUNG)], Cause.CRASHED, History(2, crashes=1, hangs=1)),
        ([Told(Cause.LAUNCH_FAILED), Told(Cause.NEVER_STARTED)], Cause.PREEMPTED, History(2, never_started=2)),
        ([Told(cause=None)], Cause.CRASHED, History(2, crashes=2)),
    ],
)
def test_every_cause_uses_up_its_own_budget(before: list[Told], cause: Cause, expected: History) -> None:
    assert counted(*before, ENDING, cause=cause) == expected


def test_the_end_of_the_attempt_that_gained_counts_for_its_budget_and_is_no_attempt_without_progress() -> None:
    gained = Told(Cause.OUT_OF_MEMORY, saves=(10,))
    assert counted(gained, ENDING, cause=Cause.OUT_OF_MEMORY) == History(1, out_of_memory=2)
    assert counted(Told(), Told(), Told(None, saves=(10,))) == History(0, crashes=1)


def test_a_step_that_was_reached_before_is_no_progress() -> None:
    again = Told(Cause.CRASHED, saves=(10,))
    assert counted(Told(saves=(10,)), again, ENDING) == History(2, crashes=3)


def test_attempts_before_a_quarantine_do_not_count_and_quarantines_do() -> None:
    first, second = checkpoint(10, 1), checkpoint(20, 1)
    chain = [Told(saves=(10, 20)), Told(resumed=second), Told(resumed=second, quarantines=second)]
    assert counted(*chain, Told(None, resumed=first)) == History(1, crashes=1, quarantines=1)
    assert counted(*chain, Told(None, resumed=first, saves=(30,))) == History(0, crashes=1)


def test_a_person_who_starts_a_stopped_run_gives_all_budgets_back() -> None:
    assert counted(Told(), Told(decision="stop"), Told(None, job="8")) == History(1, crashes=1)
    assert counted(Told(), Told(decision="hold"), ENDING) == History(1, crashes=1)


def test_what_slurm_may_have_started_gives_no_budget_back() -> None:
    assert counted(Told(), Told(decision="stop"), ENDING) == History(3, crashes=3)
    assert counted(Told(), Told(decision="hold", carried_out=False), ENDING) == History(3, crashes=3)
    assert counted(Told(), Told(job="8"), ENDING) == History(3, crashes=3)


@pytest.mark.parametrize("cause", [Cause.TIME_LIMIT, Cause.NODE_FAILURE, Cause.SUPERVISOR_DIED])
def test_a_program_without_our_library_makes_progress_unless_it_fails(cause: Cause) -> None:
    silent = Told(cause, resumed=None)
    assert counted(silent, silent, Told(None, resumed=None), cause=cause).attempts_without_progress == 0
    failed = Told(Cause.NEVER_STARTED, resumed=None)
    assert counted(silent, failed, Told(None, resumed=None)).attempts_without_progress == 2


def test_where_the_library_is_used_an_attempt_that_did_not_come_so_far_has_gained_nothing() -> None:
    silent = Told(Cause.TIME_LIMIT, resumed=None)
    history = counted(Told(Cause.TIME_LIMIT, saves=(10,)), silent, Told(None, resumed=None), cause=Cause.TIME_LIMIT)
    assert history.attempts_without_progress == 2


def test_newer_attempts_than_the_one_that_ends_do_not_count() -> None:
    assert history_with(chain_of(Told(None), Told(), Told()), 1, Cause.FENCED) == History(1)


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([], History()),
        ([Told(None)], History()),
        ([Told()], History(1, crashes=1)),
        ([Told(), Told(Cause.HUNG)], History(2, crashes=1, hangs=1)),
        ([Told(), Told(None)], History(1, crashes=1)),
        ([Told(), Told(None, saves=(10,))], History()),
        ([Told(decision="stop"), Told(None, job="8")], History()),
        ([Told(None), Told(None)], History(1, crashes=1)),
    ],
)
def test_what_counts_now_is_of_the_attempts_that_are_over(attempts: list[Told], expected: History) -> None:
    assert history_so_far(chain_of(*attempts)) == expected


def test_every_budget_has_a_limit_and_a_count_of_the_same_name() -> None:
    names = [field.name for field in fields(Limits)]
    assert [field.name for field in fields(History)] == names
    numbered = Limits(*range(1, len(names) + 1))
    assert [limit_of(numbered, budget) for budget in Budget] == list(range(1, len(names) + 1))
    history = History(*range(len(names)))
    assert uses(history, numbered) == tuple(Use(budget, at, at + 1) for at, budget in enumerate(Budget))


@given(st.sampled_from(Cause))
def test_an_end_has_to_pass_its_own_budget_and_that_of_attempts_without_progress(cause: Cause) -> None:
    weighed = {use.budget for use in uses_of(cause, History(), Limits())}
    own = budget_of(cause)
    assert weighed == (set() if cause in FREE else {Budget.WITHOUT_PROGRESS} | ({own} if own else set()))


@given(st.lists(st.sampled_from(Cause), max_size=8), st.sampled_from(Cause), st.sampled_from(Cause))
def test_progress_gives_every_budget_back_but_for_its_own_end(before: list[Cause], gained: Cause, cause: Cause) -> None:
    history = counted(*map(Told, before), Told(gained, saves=(100,)), ENDING, cause=cause)
    own = [budget_of(gained), budget_of(cause)]
    for budget in set(Budget) - {Budget.WITHOUT_PROGRESS}:
        assert history.used(budget) == own.count(budget)
    assert history.attempts_without_progress == (cause not in FREE)
