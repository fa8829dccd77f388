"""By which code srun-resilient leaves, also where a site's RequeueExit means something else by it."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import Decision, Finish, Hold, Requeue, Stop, Way
from slurm_resilience.supervisor.deed import Done, NotDone, Outcome
from slurm_resilience.supervisor.ending import Conclusion
from slurm_resilience.supervisor.past import Past, kept_from_slurm, leave

NOTHING = Done("nothing to do")


def _past(
    decision: Decision,
    cause: Cause,
    outcome: Outcome = NOTHING,
    *,
    code: int | None = None,
    way: Way = Way.REQUEUE,
) -> Past:
    return Past(1, Conclusion(decision, cause, "why", outcome), code, way)


def _leave(past: Past, requeue_exit: tuple[int, ...]) -> int:
    return leave(past, requeue_exit, lambda _: None)


@pytest.mark.parametrize(
    ("decision", "cause", "ours"),
    [
        (Stop("enough"), Cause.CRASHED, 76),
        (Stop("unfit nodes"), Cause.PREFLIGHT, 77),
        (Hold("unfit nodes"), Cause.PREFLIGHT, 77),
        (Hold("enough"), Cause.CRASHED, 76),
        (Stop("overtaken"), Cause.FENCED, 79),
    ],
)
def test_a_run_that_is_not_to_go_on_never_leaves_by_a_code_at_which_slurm_starts_it_again(
    decision: Decision, cause: Cause, ours: int
) -> None:
    past = _past(decision, cause, code=1)
    assert _leave(past, ()) == _leave(past, (85, 90)) == ours
    assert _leave(past, tuple(range(70, 80))) == 1
    assert _leave(past, (1, 2, *range(70, 80))) == 3


def test_a_refused_requeue_is_final_for_slurm_too() -> None:
    refused = NotDone("no", final=True)
    assert _leave(_past(Requeue("goes on"), Cause.PREEMPTED, refused), (76, 85)) == 1


def test_a_requeue_that_nobody_has_answered_is_left_to_the_sites_code() -> None:
    unanswered = NotDone("silence", final=False)
    assert _leave(_past(Requeue("goes on"), Cause.PREEMPTED, unanswered), (85, 90)) == 85
    assert _leave(_past(Requeue("goes on"), Cause.PREEMPTED, unanswered), ()) == 75


def test_the_commands_own_code_is_the_sites_business() -> None:
    past = _past(Stop("no way to go on"), Cause.CRASHED, code=85, way=Way.NONE)
    assert _leave(past, (85,)) == 85


def test_what_is_finished_or_goes_on_leaves_as_ever() -> None:
    assert _leave(_past(Finish("done"), Cause.FINISHED), (0, 75)) == 0
    assert _leave(_past(Requeue("goes on"), Cause.PREEMPTED), (75,)) == 75


def test_where_every_code_is_the_sites_there_is_none_to_choose() -> None:
    assert kept_from_slurm(76, range(256)) == 76
