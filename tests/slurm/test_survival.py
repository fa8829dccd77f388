"""What is done to trainings on a real Slurm, 2 nodes with 2 ranks and DataLoader workers each.

Every one of them must end with the very weights of the run that nobody disturbed. What is warned of loses no completed
step, what is killed loses at most what came after the last periodic checkpoint; nothing is queued twice, nothing lost,
no process left over.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause, SaveReason
from slurm_resilience.sandbox.cluster import Cluster
from tests.slurm.jobs import LONG_KILL_WAIT, Jobs
from tests.slurm.survival import SAVE_EVERY, STEPS, Training, undisturbed

EVERY_TRACKING = os.environ.get("EVERY_TRACKING") == "yes"
"""Who is sent Slurm's signals differs between the ways of tracking. The tests where Slurm signals tasks run under both
always; of the others each has one, and the other too where somebody has the time."""


def _under(tracking: str, kill_wait: str = "") -> pytest.MarkDecorator:
    trackings = ["linuxproc", "cgroup"] if EVERY_TRACKING else [tracking]
    return pytest.mark.parametrize("cluster", [f"{each}{kill_wait}" for each in trackings], indirect=True)


linuxproc, cgroup = _under("linuxproc"), _under("cgroup")
unhurried_linuxproc, unhurried_cgroup = _under("linuxproc", LONG_KILL_WAIT), _under("cgroup", LONG_KILL_WAIT)


@pytest.fixture
def reference(jobs: Jobs, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Training:
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    return undisturbed(jobs, shared)


def test_a_preempted_training_goes_on_where_it_was(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    jobs.preempt(training.job)
    training.wait_finished()
    training.check(reference, Cause.PREEMPTED)


@cgroup
def test_two_preemptions_in_a_row_lose_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, before="step_seconds=0.5")
    training.wait_committed()
    jobs.preempt(training.job)
    training.wait_resumed(2)
    jobs.preempt(training.job)
    training.wait_finished()
    training.check(reference, Cause.PREEMPTED, Cause.PREEMPTED)


# Slurm may warn 30 s earlier than asked: not before the ranks can hear it.
@pytest.mark.parametrize("cluster", [f"linuxproc{LONG_KILL_WAIT}", f"cgroup{LONG_KILL_WAIT}"], indirect=True)
def test_the_time_limit_with_a_warning_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, time="1", signal="USR1@5", options="--stop-before-end=0", step_seconds=2)
    training.wait_ended_by_time()
    training.wait_finished()
    training.check_ended_by_time(reference, Cause.WARNED, Cause.TIME_LIMIT)


@unhurried_linuxproc
def test_the_time_limit_without_any_warning_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, time="1", options="--stop-before-end=0", step_seconds=2)
    training.wait_ended_by_time()
    training.wait_finished()
    training.check_ended_by_time(reference, Cause.TIME_LIMIT)


@unhurried_cgroup
def test_the_end_of_the_time_is_seen_coming_without_any_signal(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, time="1", step_seconds=2)
    training.wait_ended_by_time()
    training.wait_finished()
    training.check_ended_by_time(reference, Cause.TIME_LIMIT)
    assert "the job's time" in jobs.output(training.job)


@unhurried_cgroup
def test_a_warning_to_the_batch_shell_reaches_the_ranks(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, time="1", signal="B:USR1@5", options="--stop-before-end=0", step_seconds=2)
    training.wait_ended_by_time()
    training.wait_finished()
    training.check_ended_by_time(reference, Cause.WARNED, Cause.TIME_LIMIT)
    assert "SIGUSR1 to the batch script" in jobs.output(training.job)


@unhurried_linuxproc
def test_a_requeue_by_hand_in_mid_step_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    assert jobs.requeue(training.job).code == 0
    training.wait_finished()
    training.check(reference, Cause.REQUEUED_BY_HAND)


def test_a_warning_by_hand_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    jobs.ask("scancel", "--signal=USR1", training.job)
    training.wait_finished()
    training.check(reference, Cause.WARNED)


def test_three_sigterms_at_once_are_one_request(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    # In one go: a job that is queued again meanwhile can't be signalled.
    jobs.ask("sh", "-c", f"for _ in 1 2 3; do scancel --signal=TERM {training.job} & done; wait")
    training.wait_finished()
    training.check(reference, Cause.PREEMPTED)


@linuxproc
def test_a_killed_rank_costs_at_most_one_save_interval(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    training.kill(training.rank_pid(1))
    training.wait_finished()
    training.check(reference, Cause.CRASHED, lost_steps=SAVE_EVERY)


@cgroup
def test_a_killed_node_agent_costs_at_most_one_save_interval(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    training.kill(training.agent_pid(1))
    training.wait_finished()
    training.check(reference, Cause.CRASHED, lost_steps=SAVE_EVERY)


@unhurried_linuxproc  # the ranks stop, and a deputy does the rest, all within KillWait
def test_a_killed_supervisor_costs_at_most_one_save_interval(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    for process in training.processes("slurm_resilience.cli.srun_resilient"):
        training.kill(process.pid)
    training.wait_finished()
    training.check(reference, Cause.SUPERVISOR_DIED, lost_steps=SAVE_EVERY)


@cgroup
def test_a_stop_waits_for_the_rank_that_evaluates(jobs: Jobs, reference: Training) -> None:
    arguments = "--evaluate-at=15 --evaluate-seconds=20 --evaluate-rank=1"
    training = Training.submit(jobs, arguments=arguments, step_seconds=0.1)
    jobs.wait_output(training.job, "rank 1 evaluates")
    jobs.ask("scancel", "--signal=USR1", training.job)
    training.wait_finished()
    training.check(reference, Cause.WARNED)


@linuxproc
def test_a_stop_during_the_first_step_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, step_seconds=5)
    training.wait_resumed()
    jobs.ask("scancel", "--signal=USR1", training.job)
    training.wait_finished()
    training.check(reference, Cause.WARNED)
    first = training.attempts[0].ended
    assert first is not None
    assert first.step is not None
    assert 0 <= first.step <= 3


@cgroup
def test_a_stop_while_checkpoints_are_being_written_loses_nothing(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, arguments="--save-every-steps=1", step_seconds=0.15)
    training.wait_committed(3)
    jobs.ask("scancel", "--signal=TERM", training.job)
    training.wait_finished()
    training.check(reference, Cause.PREEMPTED)


@linuxproc
def test_the_last_array_element_queues_itself_and_no_other(jobs: Jobs, reference: Training) -> None:
    folder = jobs.folder / "array"
    # Eight ranks begin on two cores, and not at the same time.
    array = Training.submit(jobs, run=Path(f"{folder}/$SLURM_ARRAY_TASK_ID"), array="0-1", step_seconds=0.8)
    first, last = (array.again(f"{array.job}_{task}", folder / str(task)) for task in (0, 1))
    for training in (first, last):
        training.wait_committed()
    jobs.ask("scancel", "--signal=TERM", last.job)
    for training in (first, last):
        training.wait_finished()
    first.check(reference)
    last.check(reference, Cause.PREEMPTED)


@cgroup
def test_a_job_that_ends_while_the_controller_is_down_is_queued_when_it_is_back(
    jobs: Jobs, reference: Training, cluster: Cluster
) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    cluster.stop_controller()
    training.kill(training.rank_pid(0))
    training.wait(lambda: "again until it answers" in jobs.output(training.job), "the supervisor never asked Slurm")
    time.sleep(3)
    jobs.cluster.start_controller()
    training.wait_finished()
    training.check(reference, Cause.CRASHED, lost_steps=SAVE_EVERY)


@linuxproc
def test_a_training_that_finishes_in_its_grace_period_is_not_started_again(jobs: Jobs, reference: Training) -> None:
    arguments = f"--evaluate-at={STEPS} --evaluate-seconds=6 --evaluate-rank=0"
    training = Training.submit(jobs, arguments=arguments, step_seconds=0.05)
    jobs.wait_output(training.job, "rank 0 evaluates")
    jobs.preempt(training.job)
    training.wait_finished()
    training.check(reference)
    assert training.attempts[0].finished_step == STEPS


@linuxproc
def test_a_run_that_belongs_to_a_live_job_is_refused_to_another(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_attempt(1)  # from then on it is theirs, and their ranks have yet to begin
    intruder = Training.submit(jobs)
    assert jobs.wait_end(intruder.job) == "FAILED"
    assert jobs.show(intruder.job)["ExitCode"] == "79:0"
    assert "belongs to a live attempt" in jobs.output(intruder.job)
    training.wait_finished()
    training.check(reference)


@cgroup
def test_a_persons_stop_saves_and_does_not_go_on_until_the_job_is_requeued(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs)
    training.wait_committed()
    training.run.stop_file.touch()
    assert jobs.wait_end(training.job) == "FAILED"
    assert jobs.show(training.job)["ExitCode"] == "76:0"
    assert training.chain.loadable()[0].committed.reason is SaveReason.STOP
    assert jobs.requeue(training.job).code == 0
    training.wait_finished()
    training.check(reference, Cause.OPERATOR_STOP)


@cgroup
def test_the_supervisor_need_not_be_the_batch_shell(jobs: Jobs, reference: Training) -> None:
    training = Training.submit(jobs, exec_it=False)
    training.wait_committed()
    jobs.preempt(training.job)
    training.wait_finished()
    training.check(reference, Cause.PREEMPTED)


def test_a_plain_task_that_uses_the_library_does_not_die_of_the_signal_that_it_is_told_of(jobs: Jobs) -> None:
    training = Training.submit(jobs, options="--plain", nodes=1, requeue=True)
    training.wait_committed()
    jobs.preempt(training.job)
    training.wait_finished()
    ends = [attempt.ended.cause if attempt.ended is not None else None for attempt in training.attempts]
    assert ends == [Cause.PREEMPTED, Cause.FINISHED]
    assert training.chain.steps_lost(1) == 0
