"""A chain under a Slurm that misbehaves: exactly one successor, whoever looks, and whatever got lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmRejected, SlurmUnavailable
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.records import Cause, DecisionCarriedOut, TrainingFinished
from slurm_resilience.requeue.successor import SUCCESSOR_OF
from slurm_resilience.slurm.client import JobRef, JobState, Submission
from slurm_resilience.supervisor.deed import NotDone
from slurm_resilience.supervisor.succession import CancelledByPerson, NotSure, Queued
from slurm_resilience.supervisor.succession_watch import FIRST_PAUSE_S, SuccessionWatch
from tests.faults.chain_scene import KeptSlurm, Link, make_link
from tests.faults.fake_slurm import running
from tests.faults.test_ending import SEEN, World


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return make_link(tmp_path)


def test_a_successor_waits_for_the_end_of_its_job_and_knows_what_it_is(link: Link) -> None:
    assert link.make_sure() == Queued(JobRef("1000"), newly=True)
    (successor,) = link.waiting
    submission = link.slurm.submitted["1000"]
    assert successor.dependency == "afterany:7(unfulfilled)"
    assert successor.comment == f"slurm-resilience:{link.chain.run_id}"
    assert submission.script == link.slurm.batch_script(JobRef("7"))
    assert submission.environment == {"PATH": "/bin", SUCCESSOR_OF: "1:7"}
    assert (link.attempt.successor_token, link.attempt.successor) == (successor.comment, "1000")


def test_an_array_element_is_followed_by_the_same_element(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.slurm = KeptSlurm(tmp_path)
    world.slurm.jobs["50_3"] = running("50_3", comment="mine")
    world.begin(job="50_3")
    found = Link(world, world.slurm)
    assert found.make_sure() == Queued(JobRef("1000_3"), newly=True)
    assert found.waiting[0].dependency == "afterany:50_3(unfulfilled)"
    assert found.waiting[0].comment == f"mine slurm-resilience:{found.chain.run_id}"


def test_a_job_that_was_requeued_by_a_person_keeps_the_successor_it_has(link: Link) -> None:
    link.make_sure()
    link.slurm.jobs["7"] = running(restarts=1)
    link.begin(restart_count=1)
    assert link.make_sure() == Queued(JobRef("1000"), newly=False)
    assert link.attempt.successor == "1000"


def test_an_attempt_that_a_person_started_takes_the_waiting_successor_over(link: Link) -> None:
    link.make_sure()
    link.slurm.jobs["9"] = running("9")
    link.begin(job="9")
    assert link.make_sure() == Queued(JobRef("1000"), newly=True)
    assert link.waiting[0].dependency == "afterany:9(unfulfilled)"


@pytest.mark.parametrize("silent_for", range(5))
def test_while_slurm_is_silent_nothing_is_submitted_and_afterwards_there_is_one(link: Link, silent_for: int) -> None:
    link.slurm.silent_for = silent_for
    for _ in range(silent_for):
        with pytest.raises(SlurmUnavailable):
            link.make_sure()
        assert link.waiting == []
    link.make_sure()
    assert len(link.waiting) == 1


def test_a_submission_whose_answer_got_lost_is_found_and_not_done_again(link: Link) -> None:
    link.slurm.answer_lost = True
    with pytest.raises(SlurmUnavailable):
        link.make_sure()
    assert link.attempt.successor is None
    assert link.make_sure() == Queued(JobRef("1000"), newly=False)
    assert link.attempt.successor == "1000"


def test_of_two_that_were_queued_at_once_the_older_stays(link: Link) -> None:
    link.make_sure()
    link.slurm.submit(Submission("", (f"--comment={link.waiting[0].comment}", "--dependency=afterany:7"), {}))
    assert len(link.waiting) == 2
    link.make_sure()
    assert [record.job for record in link.waiting] == ["1000"]
    assert link.slurm.cancelled == ["1001"]


def test_the_end_goes_on_by_the_successor_and_requeues_nothing(link: Link) -> None:
    link.make_sure()
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    conclusion = link.conclude()
    assert conclusion.carried_out
    assert link.attempt.ended is not None
    assert link.attempt.ended.decision == "successor"
    assert len(link.waiting) == 1
    assert link.slurm.requeued == []


def test_a_successor_that_was_never_queued_is_queued_at_the_end(link: Link) -> None:
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    link.slurm.silent_for = 5
    assert link.conclude().carried_out
    assert len(link.waiting) == 1


def test_a_controller_that_stays_silent_leaves_the_decision_for_resume(link: Link) -> None:
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    link.slurm.silent_for = 10**9
    conclusion = link.ending(patience_s=5).conclude(link.world.number, SEEN)
    assert isinstance(conclusion.outcome, NotDone)
    assert not conclusion.outcome.final
    link.slurm.silent_for = 0
    assert link.conclude().carried_out
    assert len(link.waiting) == 1


def test_a_finished_run_cancels_its_successor(link: Link) -> None:
    link.make_sure()
    link.world.agents(Outcome.FINISHED, None)
    link.world.journal.append(TrainingFinished(1, 100))
    assert link.conclude().cause is Cause.FINISHED
    assert link.waiting == []
    assert link.attempt.carried_out == DecisionCarriedOut(1, "scancel 1000")


def test_who_cancels_the_running_attempt_cancels_the_successor_too(link: Link) -> None:
    link.make_sure()
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    link.slurm.jobs["7"] = running(state=JobState.CANCELLED, completing=True)
    assert link.conclude().cause is Cause.CANCELLED
    assert link.waiting == []


def test_a_successor_that_a_person_cancelled_is_not_submitted_again_and_the_run_stops(link: Link) -> None:
    link.make_sure()
    link.slurm.cancel(JobRef("1000"))
    assert link.make_sure() == CancelledByPerson(JobRef("1000"))
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    conclusion = link.conclude()
    assert link.attempt.ended is not None
    assert link.attempt.ended.decision == "stop"
    assert "its successor, job 1000, was cancelled" in conclusion.decision.reason
    assert link.waiting == []


def test_where_slurm_refuses_a_successor_the_job_itself_is_queued_again(link: Link) -> None:
    class Full(KeptSlurm):
        def submit(self, submission: Submission) -> JobRef:
            raise SlurmRejected("Job violates accounting/QOS policy (job submit limit)")

    link.slurm.__class__ = Full
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    assert link.conclude().carried_out
    assert link.slurm.requeued == ["7"]


def test_where_it_stays_unsure_whether_there_is_one_the_job_itself_is_queued_again(link: Link) -> None:
    link.make_sure()
    link.slurm.may_requeue(JobRef("7"), False)
    link.slurm.jobs["1000"] = replace(link.slurm.jobs["1000"], state=JobState.RUNNING)  # too soon, and it doesn't leave
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    assert link.ending(patience_s=600).conclude(1, SEEN).carried_out
    assert link.slurm.requeued == ["7"]
    link.slurm.jobs["7"] = replace(link.slurm.jobs["7"], state=JobState.PENDING, completing=False)
    link.begin(job="1000")  # it takes over, and the job that was queued again waits for it
    assert link.make_sure() == Queued(JobRef("7"), newly=True)


def test_a_job_that_slurm_will_not_let_be_fixed_is_warned_of(link: Link) -> None:
    class Stubborn(KeptSlurm):
        def may_requeue(self, job: JobRef, allowed: bool) -> None:
            raise SlurmRejected("Access/permission denied")

    link.slurm.__class__ = Stubborn
    watch = SuccessionWatch(link.succession(), link.slurm, JobRef("7"), link.world.clock, link.world.said.append)
    watch.look(1)
    assert "warning: Slurm may queue job 7 again" in link.world.said[0]
    assert "job 1000 goes on" in link.world.said[1]
    link.slurm.cancel(JobRef("1000"))
    watch.look(1)
    assert "the run will not go on after this attempt" in link.world.said[-1]
    link.world.clock.s += 10**6
    watch.tend(1)
    watch.settle(10)
    assert link.waiting == []


@pytest.mark.parametrize(
    ("state", "leaves", "cause"),
    [
        (JobState.CANCELLED, 76, Cause.CANCELLED),
        (JobState.TIMEOUT, None, Cause.TIME_LIMIT),
        (JobState.NODE_FAIL, None, Cause.NODE_FAILURE),
        (JobState.PREEMPTED, None, Cause.PREEMPTED),
        (JobState.FAILED, None, Cause.SUPERVISOR_DIED),
    ],
)
def test_a_successor_tells_the_end_of_an_attempt_that_died_without_a_word(
    link: Link, state: JobState, leaves: int | None, cause: Cause
) -> None:
    link.make_sure()
    link.is_over(state)
    assert link.start(JobRef("1000")) == leaves
    told = link.chain.attempt(1)
    assert told is not None
    assert told.ended is not None
    assert told.ended.cause is cause
    assert told.ended.decision == ("stop" if leaves else "successor")


def test_a_successor_of_a_stopped_run_leaves_at_once(link: Link) -> None:
    link.make_sure()
    link.world.agents(Outcome.STOPPED, "OPERATOR")
    link.slurm.silent_for = 10**9
    link.ending(patience_s=5).conclude(1, SEEN)
    link.slurm.silent_for = 0
    assert len(link.waiting) == 1  # nobody could cancel it
    assert link.start(JobRef("1000")) == 76


@pytest.mark.parametrize(("state", "leaves"), [(JobState.CANCELLED, 76), (JobState.FAILED, None), (None, None)])
def test_a_scancel_after_the_decision_and_before_the_end_of_the_job_is_a_persons_word_too(
    link: Link, state: JobState | None, leaves: int | None
) -> None:
    link.make_sure()
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    link.conclude()
    if state is None:
        link.slurm.silent_for = 10**9  # the decision stands
    else:
        link.is_over(state)
    assert link.start(JobRef("1000")) == leaves


def test_a_successor_of_a_finished_run_leaves_with_0(link: Link) -> None:
    link.make_sure()
    link.world.journal.append(TrainingFinished(1, 100))
    link.is_over(JobState.FAILED)
    assert link.start(JobRef("1000")) == 0


def test_attempts_that_die_without_a_word_and_gain_nothing_use_up_the_budget(link: Link) -> None:
    codes = []
    job = JobRef("7")
    for _ in range(3):
        standing = link.make_sure()
        assert isinstance(standing, Queued)
        link.slurm.jobs[job] = replace(link.slurm.jobs[job], state=JobState.FAILED, exit_signal=9)
        link.world.commit(0)
        job = standing.job
        code = link.start(job)
        codes.append(code)
        if code is not None:
            break
        link.begin(job=job)
    assert codes[-1] == 76
    assert len(codes) == 2


def test_beside_the_training_it_is_looked_at_again_until_slurm_answers(link: Link) -> None:
    watch = SuccessionWatch(link.succession(), link.slurm, JobRef("7"), link.world.clock, link.world.said.append)
    link.slurm.silent_for = 1
    watch.look(1)
    may_be_requeued = [link.may_be_requeued]  # nobody else would go on yet
    watch.tend(1)
    watch.settle(10)
    assert link.waiting == []
    link.world.clock.s += FIRST_PAUSE_S
    watch.tend(1)
    watch.settle(10)
    watch.tend(1)
    assert len(link.waiting) == 1
    assert [*may_be_requeued, link.may_be_requeued] == [True, False]
    assert link.world.said[-1] == "job 1000 goes on with the run when job 7 is over"


def test_one_that_started_too_soon_is_waited_out(link: Link) -> None:
    link.make_sure()
    link.slurm.jobs["1000"] = replace(link.slurm.jobs["1000"], state=JobState.RUNNING)
    assert isinstance(link.make_sure(), NotSure)
    link.slurm.jobs["1000"] = replace(link.slurm.jobs["1000"], state=JobState.FAILED)  # it left with 79
    assert link.make_sure() == Queued(JobRef("1001"), newly=True)
