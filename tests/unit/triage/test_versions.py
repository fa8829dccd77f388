"""The same end of the same job, by Slurm's release."""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.diagnosis import Diagnosis, diagnose
from slurm_resilience.triage.versions import Fate, Left, Mode, fate, mode_of
from tests.unit.triage.ends import asked, evidence, record


@pytest.mark.parametrize(
    ("release", "mode", "left", "state", "queued", "counted"),
    [
        ((22, 5), Mode.REQUEUE, Left.WITH_0, JobState.COMPLETED, False, False),
        ((22, 5), Mode.REQUEUE, Left.WITH_AN_ERROR, JobState.FAILED, False, False),
        ((23, 11), Mode.REQUEUE, Left.WITH_0, JobState.COMPLETED, False, False),
        ((24, 5), Mode.REQUEUE, Left.WITH_0, JobState.PENDING, True, True),
        ((25, 11), Mode.REQUEUE, Left.WITH_AN_ERROR, JobState.PENDING, True, True),
        ((22, 5), Mode.CANCEL, Left.WITH_0, JobState.COMPLETED, False, False),
        ((25, 11), Mode.CANCEL, Left.WITH_0, JobState.PREEMPTED, False, False),
        ((22, 5), Mode.REQUEUE, Left.STAYED, JobState.PENDING, True, False),
        ((25, 11), Mode.REQUEUE, Left.REQUEUED_ITSELF, JobState.PENDING, True, False),
        ((24, 11), Mode.CANCEL, Left.STAYED, JobState.PREEMPTED, False, False),
    ],
)
def test_what_slurm_does_with_a_preempted_job(
    release: tuple[int, int], mode: Mode, left: Left, state: JobState, queued: bool, counted: bool
) -> None:
    found = fate(release, mode, left)
    assert isinstance(found, Fate)
    assert (found.state, found.queued_again, found.counted) == (state, queued, counted)
    assert found.measured


@pytest.mark.parametrize(("release", "mode"), [(None, Mode.REQUEUE), ((20, 11), Mode.REQUEUE), ((24, 5), None)])
def test_an_unknown_release_or_mode_promises_nothing(release: tuple[int, int] | None, mode: Mode | None) -> None:
    assert fate(release, mode, Left.WITH_0) is None


@pytest.mark.parametrize(
    ("words", "may_requeue", "mode"),
    [
        ("REQUEUE", True, Mode.REQUEUE),
        ("REQUEUE", False, Mode.CANCEL),
        ("CANCEL", True, Mode.CANCEL),
        ("GANG,SUSPEND", True, Mode.SUSPEND),
        ("OFF", True, None),
        ("", True, None),
    ],
)
def test_the_mode_is_what_it_comes_to_for_this_job(words: str, may_requeue: bool, mode: Mode | None) -> None:
    assert mode_of(words, may_requeue=may_requeue) is mode


def afterwards(release: tuple[int, int] | None, **changed: object) -> Diagnosis:
    """Asked when all is over; the agents had stopped at a SIGTERM long before the end of the job's time."""
    return diagnose(
        evidence(
            agents=asked("TERMINATION"),
            command_code=None,
            supervisor_died=True,
            release=release,
            preempt_mode="REQUEUE",
            record=record(**changed),
        )
    )


def test_a_job_that_left_in_its_grace_was_preempted_and_an_old_slurm_leaves_it_at_that() -> None:
    told = afterwards((22, 5), state=JobState.COMPLETED)
    assert told.cause is Cause.PREEMPTED
    assert "Slurm 22.05 lists it as COMPLETED and doesn't queue it again" in told.because
    assert afterwards((22, 5), state=JobState.FAILED, exit_code=75).cause is Cause.PREEMPTED
    assert afterwards((22, 5), state=JobState.COMPLETED, preempted_s=90.0).cause is Cause.PREEMPTED


def test_a_batch_script_that_a_signal_ended_did_not_leave_in_its_grace() -> None:
    assert afterwards((22, 5), state=JobState.FAILED, exit_signal=9).cause is Cause.SUPERVISOR_DIED
    assert afterwards((22, 5), state=JobState.FAILED, exit_code=137).cause is Cause.SUPERVISOR_DIED


def test_a_newer_slurm_queues_it_again_so_a_restart_is_no_persons_word() -> None:
    assert afterwards((24, 5), state=JobState.PENDING, restarts=1).cause is Cause.PREEMPTED
    assert afterwards((22, 5), state=JobState.PENDING, restarts=1).cause is Cause.REQUEUED_BY_HAND
    assert afterwards(None, state=JobState.PENDING, restarts=1).cause is Cause.REQUEUED_BY_HAND


def test_what_a_newer_slurm_would_have_queued_again_was_not_preempted() -> None:
    assert afterwards((24, 5), state=JobState.COMPLETED).cause is Cause.SUPERVISOR_DIED


def test_a_newer_slurm_holds_a_job_that_was_polite_too_often() -> None:
    held = afterwards((25, 11), restarts=1, held=True, reason="launch_failure_limit_exceeded_requeued_held")
    assert held.cause is Cause.PREEMPTED
    assert "takes that for a failed launch" in held.because
