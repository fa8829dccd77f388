"""Whatever ends an attempt, the run goes on where it was: on any cluster, for an ordinary user."""

from __future__ import annotations

import signal

import pytest

from slurm_resilience.manifest.records import Cause
from tests.clusters.cluster import ClusterUnderTest, Impossible
from tests.clusters.restore import tell_slurm
from tests.clusters.running import SAVE_EVERY, Running
from tests.clusters.undisturbed import undisturbed
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until


@pytest.mark.quick
def test_a_preempted_run_of_an_ordinary_user_is_queued_again_and_finishes(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    running = Running.light(cluster_under_test, jobs, finishes_in=2)
    running.wait_committed()
    jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_light()


def test_a_preempted_run_of_root_is_queued_again_and_finishes(
    cluster_under_test: ClusterUnderTest, owners_jobs: JobsOn
) -> None:
    if owners_jobs.cluster.run("id", "-u").out.strip() != "0":
        pytest.skip("the cluster's owner is not root")
    running = Running.light(cluster_under_test, owners_jobs, finishes_in=2)
    running.wait_committed()
    owners_jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_light()


@pytest.mark.quick
def test_a_requeue_by_hand_loses_nothing(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    running = Running.light(cluster_under_test, jobs, finishes_in=2)
    running.wait_committed()
    assert jobs.requeue(running.job).code == 0
    running.wait_finished()
    running.check(Cause.REQUEUED_BY_HAND)
    running.check_light()


def test_the_warning_before_the_time_limit_loses_nothing(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    running = Running.light(
        cluster_under_test, jobs, options="--stop-before-end=0", step_s=2, time="1", signal="USR1@45"
    )
    running.wait_attempt(1)
    running.wait(lambda: running.attempts[0].ended is not None, "the first attempt never ended")
    longer = ("scontrol", "update", f"JobId={running.job}", "TimeLimit=10")
    # The owner may not; and Slurm refuses it while the job is between two lives.
    wait_until(lambda: cluster_under_test.run(*longer).code == 0, "the time limit can't be raised", PATIENCE_S)
    running.wait_finished()
    [cause] = running.causes[:-1]
    assert cause in (Cause.WARNED, Cause.TIME_LIMIT), running.story()
    first = running.attempts[0].ended
    assert first is not None
    # Slurm may warn up to a minute early, and so before there is a step that could be lost.
    running.check(cause, lost_steps=0 if first.step is not None else 1)
    running.check_light()


def test_a_killed_rank_costs_at_most_one_save_interval(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    running = Running.light(cluster_under_test, jobs, finishes_in=2)
    running.wait_committed()
    running.kill_training(running.nodes[1])
    running.wait_finished()
    running.check(Cause.CRASHED, lost_steps=SAVE_EVERY)
    running.check_light()


def test_a_run_goes_on_by_successors(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    running = Running.light(cluster_under_test, jobs, options="--continue=chain", finishes_in=2)
    running.wait_committed()
    jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_light()
    first, second = (str(attempt.started.job) for attempt in running.attempts)
    assert first == running.job != second
    assert jobs.show(first)["Restarts"] == jobs.show(second)["Restarts"] == "0"
    assert jobs.ask("squeue", "-h", "-t", "PENDING", "-o", "%i").out.split() == []


@pytest.mark.timeout(900)
def test_a_warning_while_the_controller_is_down_is_carried_out_when_it_is_back(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    running = Running.light(cluster, jobs, finishes_in=2)
    running.wait_committed()
    first = running.nodes[0]
    cluster.stop_controller()
    assert cluster.kill(first, running.marker, signal.SIGUSR1, "-m slurm_resilience.agent") > 0
    # In containers every command that finds no controller takes its whole time-out.
    running.wait(lambda: "again until it answers" in running.story(), "the supervisor never asked Slurm", 400)
    cluster.start_controller()
    running.wait_finished()
    running.check(Cause.WARNED)
    running.check_light()


@pytest.mark.parametrize("number", [1, 0], ids=["another node", "the first node"])
def test_a_node_that_vanishes_costs_at_most_one_save_interval(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn, number: int
) -> None:
    cluster = cluster_under_test
    running = Running.light(cluster, jobs, step_s=0.5, finishes_in=2)
    running.wait_committed()
    lost = running.nodes[number]
    cluster.node_vanishes(lost)
    tell_slurm(cluster, lost)  # tests/docker waits until Slurm notices
    running.wait_attempt(2)
    running.wait_finished()
    [cause] = running.causes[:-1]
    assert cause in (Cause.NODE_FAILURE, Cause.CRASHED, Cause.REQUEUED_BY_HAND), running.story()
    running.check(cause, lost_steps=SAVE_EVERY)
    running.check_light()
    assert lost not in running.nodes


def test_a_preempted_torch_training_ends_with_the_bits_of_an_undisturbed_one(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    reference = undisturbed(cluster_under_test, jobs)
    running = Running.digits(cluster_under_test, jobs)
    running.wait_committed()
    jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_same_as(reference)


def test_a_disk_that_is_full_for_a_while_costs_saves_but_not_the_training(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    reference = undisturbed(cluster_under_test, jobs)
    try:
        disk = cluster_under_test.small_disk()
    except Impossible as impossible:
        pytest.skip(str(impossible))
    running = Running.digits(cluster_under_test, jobs, run=disk.path / "run")
    running.wait_committed()
    disk.fill()
    running.wait(lambda: bool(running.attempts[0].saves_failed), "no save ever failed")
    disk.free()
    running.wait_finished()
    running.check()
    running.check_same_as(reference)
