"""Whether a run goes on: tables and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.manifest.records import Cause, CheckpointId, CheckpointQuarantined
from slurm_resilience.requeue.budget import Budget, budget_of
from slurm_resilience.requeue.decision import (
    AlreadyQueued,
    Decision,
    Finish,
    Hold,
    Requeue,
    Restart,
    Stop,
    Successor,
    Way,
    decide,
    word_for,
)
from slurm_resilience.requeue.history import FREE, History
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.quarantine import NotPutAside, Quarantine
from slurm_resilience.triage.diagnosis import Diagnosis

GOES_ON = (Requeue, Successor, Restart, AlreadyQueued)
causes = st.sampled_from(Cause)
counts = st.integers(0, 12)
histories = st.builds(History, *[counts] * len(Budget))
limits = st.builds(Limits, *[st.integers(1, 10)] * len(Budget))
ways = st.sampled_from(Way)
ways_on = st.sampled_from([Way.REQUEUE, Way.CHAIN, Way.IN_PLACE])

NAME = CheckpointId("step-0000000120.a3")
PUT_ASIDE = Quarantine(CheckpointQuarantined(NAME, 5, f"attempts 4 and 5 died soon after loading {NAME}"), 90)
ONLY_ONE = NotPutAside(NAME, f"{NAME} is the only one: --from-scratch")


def diagnosis(cause: Cause) -> Diagnosis:
    return Diagnosis(cause, f"because of {cause.value}", ())


def decided(cause: Cause, history: History, **changed: object) -> Decision:
    arguments: dict[str, object] = {"way": Way.REQUEUE, "limits": Limits(), "queued_by_slurm": False}
    return decide(diagnosis(cause), history, **(arguments | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "history", "expected"),
    [
        (Cause.FINISHED, History(9, 9), Finish),
        (Cause.PREEMPTED, History(), Requeue),
        (Cause.PREEMPTED, History(99, 99, 99, 99, 99, 99, 99, 99), Requeue),
        (Cause.TIME_LIMIT, History(0), Requeue),
        (Cause.TIME_LIMIT, History(2), Stop),
        (Cause.TIME_LIMIT, History(0, crashes=9), Requeue),
        (Cause.NODE_FAILURE, History(1, node_failures=9), Requeue),
        (Cause.NODE_FAILURE, History(0, node_failures=10), Stop),
        (Cause.NODE_FAILURE, History(2, node_failures=2), Stop),
        (Cause.WARNED, History(1), Requeue),
        (Cause.WARNED, History(2), Stop),
        (Cause.SUPERVISOR_DIED, History(1), Requeue),
        (Cause.SUPERVISOR_DIED, History(2), Stop),
        (Cause.CRASHED, History(0, crashes=1), Requeue),
        (Cause.CRASHED, History(2, crashes=2), Stop),
        (Cause.CRASHED, History(1, crashes=3), Stop),
        (Cause.CRASHED, History(1, crashes=2, hangs=99), Requeue),
        (Cause.UNKNOWN, History(1, crashes=3), Stop),
        (Cause.HUNG, History(1, hangs=2), Requeue),
        (Cause.HUNG, History(1, hangs=3), Stop),
        (Cause.STORAGE, History(1, storage_faults=4), Requeue),
        (Cause.STORAGE, History(1, storage_faults=5), Stop),
        (Cause.OUT_OF_MEMORY, History(0, out_of_memory=1), Requeue),
        (Cause.OUT_OF_MEMORY, History(1, out_of_memory=2), Stop),
        (Cause.LAUNCH_FAILED, History(1, never_started=2), Requeue),
        (Cause.LAUNCH_FAILED, History(1, never_started=3), Stop),
        (Cause.NEVER_STARTED, History(1, never_started=3), Stop),
        (Cause.CANCELLED, History(), Stop),
        (Cause.CANCELLED_BY_ADMIN, History(), Stop),
        (Cause.OPERATOR_STOP, History(), Stop),
        (Cause.DEPENDENCY_NEVER, History(), Stop),
        (Cause.PREFLIGHT, History(), Stop),
        (Cause.FENCED, History(), Stop),
        (Cause.REQUEUED_BY_HAND, History(5, 5), AlreadyQueued),
    ],
)
def test_a_batch_job_is_queued_again_or_not_by_its_cause(cause: Cause, history: History, expected: type) -> None:
    assert isinstance(decided(cause, history), expected)


@pytest.mark.parametrize(
    ("cause", "history", "words"),
    [
        (Cause.CRASHED, History(1, crashes=2), "crash 2 of 3 since the last progress"),
        (Cause.CRASHED, History(1, crashes=3), "crash 3 of 3 since the last progress; the last: because of crashed"),
        (Cause.HUNG, History(0, hangs=1), "hang 1 of 3"),
        (Cause.STORAGE, History(2, storage_faults=2), "2 attempts in a row gained no step (limit 2)"),
        (Cause.TIME_LIMIT, History(1), "attempt 1 of 2 without progress"),
        (Cause.OUT_OF_MEMORY, History(2, out_of_memory=2), "(limit 2), and end for want of memory 2 of 2"),
        (Cause.CANCELLED, History(), "submit it again"),
        (Cause.CANCELLED_BY_ADMIN, History(), "whoever runs the cluster"),
        (Cause.DEPENDENCY_NEVER, History(), "without that dependency"),
        (Cause.PREFLIGHT, History(), "mend it and submit the job again"),
        (Cause.FENCED, History(), "the newer attempt has the run"),
    ],
)
def test_the_reason_says_which_budget_and_what_helps(cause: Cause, history: History, words: str) -> None:
    assert words in decided(cause, history).reason


@pytest.mark.parametrize(
    ("way", "expected"),
    [(Way.REQUEUE, Requeue), (Way.CHAIN, Successor), (Way.IN_PLACE, Restart), (Way.NONE, Stop)],
)
def test_a_run_goes_on_in_the_way_it_has(way: Way, expected: type) -> None:
    assert isinstance(decided(Cause.CRASHED, History(crashes=1), way=way), expected)


@pytest.mark.parametrize("cause", [Cause.CRASHED, Cause.CANCELLED, Cause.OPERATOR_STOP, Cause.CANCELLED_BY_ADMIN])
def test_what_slurm_has_queued_is_held_where_the_run_is_given_up(cause: Cause) -> None:
    assert isinstance(decided(cause, History(2, crashes=3), queued_by_slurm=True), Hold)


def test_a_fenced_attempt_holds_nothing_for_the_job_may_be_the_newer_ones() -> None:
    assert isinstance(decided(Cause.FENCED, History(), queued_by_slurm=True), Stop)


def test_a_quarantine_goes_on_although_the_budget_is_spent() -> None:
    decision = decided(Cause.CRASHED, History(2, crashes=3), suspicion=PUT_ASIDE)
    assert isinstance(decision, Requeue)
    assert f"soon after loading {NAME}; it is put into quarantine, and the run goes back to step 90" in decision.reason


def test_a_stop_says_what_is_suspected_and_could_not_be_put_aside() -> None:
    decision = decided(Cause.CRASHED, History(2, crashes=2), suspicion=ONLY_ONE)
    assert isinstance(decision, Stop)
    assert "--from-scratch" in decision.reason
    assert "--from-scratch" not in decided(Cause.CRASHED, History(1, crashes=1), suspicion=ONLY_ONE).reason


@given(causes, limits, counts, ways_on, st.booleans())
def test_only_preemption_and_a_persons_requeue_can_go_on_for_ever(
    cause: Cause, limits: Limits, more: int, way: Way, queued: bool
) -> None:
    history = History(limits.attempts_without_progress + more)
    decision = decided(cause, history, limits=limits, way=way, queued_by_slurm=queued)
    assert isinstance(decision, GOES_ON) == (cause in FREE)


@given(st.sampled_from([cause for cause in Cause if budget_of(cause) is not None]), limits, ways_on, st.booleans())
def test_a_spent_budget_of_its_own_ends_the_run_whatever_was_gained(
    cause: Cause, limits: Limits, way: Way, queued: bool
) -> None:
    history = History(0, *(getattr(limits, name) for name in Limits.__slots__[1:]))
    assert not isinstance(decided(cause, history, limits=limits, way=way, queued_by_slurm=queued), GOES_ON)


@given(causes, histories, histories, limits, ways, st.booleans())
def test_more_history_never_turns_a_stop_into_going_on(
    cause: Cause, history: History, more: History, limits: Limits, way: Way, queued: bool
) -> None:
    longer = History(*(history.used(budget) + more.used(budget) for budget in Budget))
    arguments: dict[str, object] = {"limits": limits, "way": way, "queued_by_slurm": queued}
    if not isinstance(decided(cause, history, **arguments), GOES_ON):
        assert not isinstance(decided(cause, longer, **arguments), GOES_ON)


@given(causes, histories, limits, ways, st.booleans())
def test_a_finished_run_and_nothing_else_finishes(
    cause: Cause, history: History, limits: Limits, way: Way, queued: bool
) -> None:
    decision = decided(cause, history, way=way, limits=limits, queued_by_slurm=queued)
    assert isinstance(decision, Finish) == (cause is Cause.FINISHED)


@given(causes, histories, limits, ways)
def test_what_slurm_has_queued_is_never_queued_twice(cause: Cause, history: History, limits: Limits, way: Way) -> None:
    decision = decided(cause, history, way=way, limits=limits, queued_by_slurm=True)
    assert not isinstance(decision, Requeue | Successor | Restart)


@given(causes, histories, limits, ways)
def test_nothing_is_held_that_slurm_has_not_queued(cause: Cause, history: History, limits: Limits, way: Way) -> None:
    assert not isinstance(decided(cause, history, way=way, limits=limits), Hold)


@given(causes, histories, limits, st.booleans())
def test_without_a_way_on_nothing_is_started(cause: Cause, history: History, limits: Limits, queued: bool) -> None:
    decision = decided(cause, history, way=Way.NONE, limits=limits, queued_by_slurm=queued)
    assert not isinstance(decision, Requeue | Successor | Restart)


@given(causes, histories, limits, ways, st.booleans(), st.sampled_from([None, PUT_ASIDE, ONLY_ONE]))
def test_every_decision_has_a_reason_and_a_word(
    cause: Cause, history: History, limits: Limits, way: Way, queued: bool, suspicion: Quarantine | NotPutAside | None
) -> None:
    decision = decided(cause, history, way=way, limits=limits, queued_by_slurm=queued, suspicion=suspicion)
    assert decision.reason.startswith(("because of", *map(str, range(10)))) or " of " in decision.reason
    assert word_for(decision) in ("finish", "requeue", "successor", "restart", "leave", "hold", "stop")
