"""The controller and the database, as services of their own."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_resilience.command import Completed
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRef, JobState
from slurm_resilience.slurm.command_line import CommandLineSlurm
from tests.clusters.cluster import ClusterUser
from tests.clusters.compose import ComposeCluster
from tests.clusters.running import SAVE_EVERY, Running
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until


def client_of(user: ClusterUser) -> CommandLineSlurm:
    """Our client; its commands run where that user is logged in."""

    def runner(argv: Sequence[str], *, timeout_s: float, **_: object) -> Completed:
        return user.run(*argv, timeout_s=timeout_s)

    return CommandLineSlurm(environment={}, runner=runner)


def test_a_controller_that_is_started_again_in_mid_training_costs_nothing(
    docker_cluster: ComposeCluster, jobs: JobsOn
) -> None:
    running = Running.light(docker_cluster, jobs, finishes_in=2)
    running.wait_committed()
    docker_cluster.stop_controller()
    docker_cluster.start_controller()
    jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_light()


def test_accounting_has_every_life_of_a_run(docker_cluster: ComposeCluster, jobs: JobsOn, alice: ClusterUser) -> None:
    running = Running.light(docker_cluster, jobs, finishes_in=2)
    running.wait_committed()
    running.kill_training(running.nodes[0])
    running.wait_finished()
    running.check(Cause.CRASHED, lost_steps=SAVE_EVERY)
    client, job = client_of(alice), JobRef(running.job)
    assert client.configuration().accounting

    def lives() -> list[JobState]:
        return [life.state for life in client.lives(job) or ()]

    # How accounting calls a life that a requeue has ended says nothing of why: our client says so.
    wait_until(lambda: lives() == [JobState.UNKNOWN, JobState.COMPLETED], lambda: f"{client.lives(job)}", PATIENCE_S)
    first, last = client.lives(job) or ()
    assert first.start_s is not None
    assert first.end_s is not None
    assert last.start_s is not None
    assert first.start_s < first.end_s < last.start_s
    assert (last.exit_code, last.exit_signal) == (0, 0)
