"""What a publisher's end means, and what the end of the training means for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.requeue.decision import AlreadyQueued, Decision, Finish, Requeue, Restart, Stop
from slurm_resilience.supervisor.patience import (
    FIRST_PAUSE_S,
    LEAVE_BEFORE_END_S,
    LONGEST_PAUSE_S,
    STOP_S,
    TRIES_AFTERWARDS,
    TRIES_BESIDE,
    EndedInOrder,
    GiveUp,
    Halt,
    StartAgain,
    Wait,
    after_its_end,
    when_it_is_over,
)

SECONDS = st.none() | st.floats(-1e6, 1e6)
GOES_ON = [Requeue("r"), Restart("r"), AlreadyQueued("r"), Stop("s")]
FINISH = Finish("done")


@pytest.mark.parametrize(
    ("code", "ends", "afterwards", "then"),
    [
        (1, 1, False, StartAgain(10.0)),
        (137, 2, False, StartAgain(20.0)),
        (78, 7, False, StartAgain(600.0)),
        (1, 8, False, GiveUp(8)),
        (0, 1, False, EndedInOrder()),
        (0, 1, True, StartAgain(10.0)),
        (1, 3, True, GiveUp(3)),
    ],
)
def test_one_that_ended_is_started_again_later_and_later_and_given_up(
    code: int, ends: int, afterwards: bool, then: StartAgain | EndedInOrder | GiveUp
) -> None:
    assert after_its_end(code, ends=ends, afterwards=afterwards) == then


@given(st.integers(0, 255), st.booleans())
def test_no_publisher_is_started_for_ever_and_no_pause_is_shorter_than_the_one_before(
    code: int, afterwards: bool
) -> None:
    results = [after_its_end(code, ends=ends, afterwards=afterwards) for ends in range(1, TRIES_BESIDE + 1)]
    pauses = [result.pause_s for result in results if isinstance(result, StartAgain)]
    assert pauses == sorted(pauses)
    assert all(FIRST_PAUSE_S <= pause <= LONGEST_PAUSE_S for pause in pauses)
    assert not isinstance(results[-1], StartAgain)
    assert len(pauses) < (TRIES_AFTERWARDS if afterwards else TRIES_BESIDE)


@pytest.mark.parametrize(
    ("job_ends_in_s", "must_leave_in_s", "then"),
    [
        (None, None, Wait(None)),
        (3600.0, None, Wait(3600.0 - LEAVE_BEFORE_END_S)),
        (3600.0, 20.0, Wait(17.0)),
        (None, 20.0, Wait(17.0)),
        (LEAVE_BEFORE_END_S, None, Halt(STOP_S)),
        (3600.0, 3.0, Halt(2.0)),
        (None, 0.5, Halt(0.0)),
    ],
)
def test_a_finished_run_waits_no_longer_than_the_job_lasts(
    job_ends_in_s: float | None, must_leave_in_s: float | None, then: Wait | Halt
) -> None:
    assert when_it_is_over(FINISH, job_ends_in_s=job_ends_in_s, must_leave_in_s=must_leave_in_s) == then


@given(st.sampled_from(GOES_ON), SECONDS, SECONDS)
def test_only_a_finished_run_waits(decision: Decision, job_ends_in_s: float | None, must_leave_in_s: float | None):
    assert isinstance(
        when_it_is_over(decision, job_ends_in_s=job_ends_in_s, must_leave_in_s=must_leave_in_s),
        Halt,
    )


@given(st.sampled_from([FINISH, *GOES_ON]), SECONDS, st.floats(0, 1e6))
def test_nothing_takes_longer_than_slurm_lets_us_live(
    decision: Decision, job_ends_in_s: float | None, must_leave_in_s: float
) -> None:
    match when_it_is_over(decision, job_ends_in_s=job_ends_in_s, must_leave_in_s=must_leave_in_s):
        case Wait(at_most_s):
            assert at_most_s is not None
            assert 0 < at_most_s < must_leave_in_s
        case Halt(within_s):
            assert 0 <= within_s <= min(STOP_S, must_leave_in_s)
