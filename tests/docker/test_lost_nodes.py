"""Nodes that die or are cut off in mid-training, each a container with a network of its own.

The last of the folder, by its name too: a slurmd that comes back after that may never end a job again.
"""

from __future__ import annotations

import pytest

from slurm_resilience.manifest.records import Cause
from tests.clusters.cluster import ClusterUser
from tests.clusters.compose import ComposeCluster
from tests.clusters.restore import folder_for, tell_slurm
from tests.clusters.running import DIGITS_SAVE_EVERY, SAVE_EVERY, Running
from tests.clusters.undisturbed import undisturbed
from tests.docker.accounts import account_of
from tests.slurm.jobs import JobsOn

LOST = frozenset({Cause.NODE_FAILURE, Cause.CRASHED, Cause.REQUEUED_BY_HAND})
"""A lost node may be seen by Slurm first, or by the peers whose connections break."""


@pytest.fixture
def pair(docker_cluster: ComposeCluster, jobs: JobsOn, alice: ClusterUser) -> tuple[JobsOn, JobsOn]:
    """For two runs at a time, on two nodes each: waiting for Slurm is most of the time that a test takes."""
    return jobs, JobsOn(alice, folder_for(docker_cluster, f"{jobs.folder.name}-other"))


def test_trainings_whose_nodes_are_killed_end_with_the_bits_of_an_undisturbed_one(
    docker_cluster: ComposeCluster, pair: tuple[JobsOn, JobsOn]
) -> None:
    reference = undisturbed(docker_cluster, pair[0])
    runs = [Running.digits(docker_cluster, jobs, step_s=5) for jobs in pair]
    for running in runs:
        running.wait_committed()
    # One loses the node of its batch script, the other one another node; Slurm has to notice by itself.
    lost = [runs[0].nodes[0], runs[1].nodes[1]]
    for node in lost:
        docker_cluster.node_vanishes(node)
    for running in runs:
        running.wait_attempt(2)
    for running, node in zip(runs, lost, strict=True):
        running.wait_finished()
        running.check(cause_of_loss(running), lost_steps=DIGITS_SAVE_EVERY)
        check_told(running, node)
        running.check_same_as(reference)
        assert not set(lost) & set(running.nodes)


def test_runs_go_on_without_the_nodes_that_are_cut_off_and_their_ghosts_write_nothing(
    docker_cluster: ComposeCluster, pair: tuple[JobsOn, JobsOn]
) -> None:
    # Storage stays for all, as where it has a network of its own: a ghost could write.
    runs = [Running.light(docker_cluster, jobs, step_s=1.5, finishes_in=2) for jobs in pair]
    for running in runs:
        running.wait_committed()
    cut = [runs[0].nodes[0], runs[1].nodes[1]]
    for node in cut:
        docker_cluster.cut_network(node)
    tell_slurm(docker_cluster, *cut)
    for running, node in zip(runs, cut, strict=True):
        running.wait_attempt(2)
        wait_for_the_ghosts(docker_cluster, running, node)
    for running, node in zip(runs, cut, strict=True):
        running.wait_finished()
        running.check(cause_of_loss(running), lost_steps=SAVE_EVERY)
        check_told(running, node)
        running.check_light()
        assert not set(cut) & set(running.nodes)


def cause_of_loss(running: Running) -> Cause:
    """Of the one attempt that didn't finish."""
    [cause] = running.causes[:-1]
    assert cause in LOST, running.story()
    return cause


def check_told(running: Running, lost: str) -> None:
    """Triage names the lost node, whoever noticed it first, and no other one."""
    account = account_of(running, 1)
    assert account["first"]["node"] == lost, account
    assert account["cause"] in {cause.value for cause in LOST}, account


def wait_for_the_ghosts(cluster: ComposeCluster, running: Running, node: str) -> None:
    """Until nothing of the run lives on a node that nobody can reach: its supervisor and srun neither."""
    running.wait(lambda: not cluster.processes(node, running.marker), f"the ghosts on {node} live on", 120)
