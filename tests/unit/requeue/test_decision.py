"""Whether a run goes on: tables and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import (
    AlreadyQueued,
    Finish,
    History,
    Requeue,
    Restart,
    Stop,
    Way,
    decide,
    word_for,
)
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.triage.diagnosis import Diagnosis

causes = st.sampled_from(Cause)
histories = st.builds(History, st.integers(0, 100), st.integers(0, 100))
limits = st.builds(Limits, st.integers(1, 10), st.integers(1, 10))
ways = st.sampled_from(Way)


def diagnosis(cause: Cause) -> Diagnosis:
    return Diagnosis(cause, f"because of {cause.value}", ())


@pytest.mark.parametrize(
    ("cause", "history", "expected"),
    [
        (Cause.FINISHED, History(9, 9), Finish),
        (Cause.PREEMPTED, History(0, 0), Requeue),
        (Cause.PREEMPTED, History(99, 0), Requeue),
        (Cause.TIME_LIMIT, History(0, 0), Requeue),
        (Cause.TIME_LIMIT, History(2, 0), Stop),
        (Cause.NODE_FAILURE, History(1, 0), Requeue),
        (Cause.WARNED, History(0, 0), Requeue),
        (Cause.SUPERVISOR_DIED, History(1, 0), Requeue),
        (Cause.CRASHED, History(0, 1), Requeue),
        (Cause.CRASHED, History(2, 2), Stop),
        (Cause.CRASHED, History(1, 3), Stop),
        (Cause.UNKNOWN, History(2, 2), Stop),
        (Cause.OUT_OF_MEMORY, History(0, 3), Stop),
        (Cause.CANCELLED, History(0, 0), Stop),
        (Cause.OPERATOR_STOP, History(0, 0), Stop),
        (Cause.FENCED, History(0, 0), Stop),
        (Cause.REQUEUED_BY_HAND, History(5, 5), AlreadyQueued),
    ],
)
def test_a_batch_job_is_queued_again_or_not_by_its_cause(cause: Cause, history: History, expected: type) -> None:
    decision = decide(diagnosis(cause), history, way=Way.REQUEUE, limits=Limits(), queued_by_slurm=False)
    assert isinstance(decision, expected)


@given(causes, limits, st.integers(0, 100))
def test_only_preemption_and_a_persons_requeue_can_go_on_for_ever(cause: Cause, limits: Limits, more: int) -> None:
    stuck = limits.attempts_without_progress + more
    decision = decide(diagnosis(cause), History(stuck, stuck), way=Way.REQUEUE, limits=limits, queued_by_slurm=False)
    goes_on = isinstance(decision, Requeue | AlreadyQueued)
    assert goes_on == (cause in (Cause.PREEMPTED, Cause.REQUEUED_BY_HAND))


@given(causes, histories, limits, ways, st.booleans())
def test_a_finished_run_and_nothing_else_finishes(
    cause: Cause, history: History, limits: Limits, way: Way, queued: bool
) -> None:
    decision = decide(diagnosis(cause), history, way=way, limits=limits, queued_by_slurm=queued)
    assert isinstance(decision, Finish) == (cause is Cause.FINISHED)


@given(causes, histories, limits, ways)
def test_what_slurm_has_queued_is_never_queued_twice(cause: Cause, history: History, limits: Limits, way: Way) -> None:
    decision = decide(diagnosis(cause), history, way=way, limits=limits, queued_by_slurm=True)
    assert not isinstance(decision, Requeue | Restart)


@given(causes, histories, limits, st.booleans())
def test_without_a_way_on_nothing_is_started(cause: Cause, history: History, limits: Limits, queued: bool) -> None:
    decision = decide(diagnosis(cause), history, way=Way.NONE, limits=limits, queued_by_slurm=queued)
    assert not isinstance(decision, Requeue | Restart)


@given(causes, histories, limits, ways, st.booleans())
def test_every_decision_has_a_reason_and_a_word(
    cause: Cause, history: History, limits: Limits, way: Way, queued: bool
) -> None:
    decision = decide(diagnosis(cause), history, way=way, limits=limits, queued_by_slurm=queued)
    assert decision.reason
    assert word_for(decision) in ("finish", "requeue", "restart", "leave", "stop")
