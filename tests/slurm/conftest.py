"""A real Slurm for every test here: one cluster per proctrack and test process, cleared after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec, Proctrack
from tests.slurm.jobs import Jobs


@pytest.fixture(scope="session", params=["linuxproc", "cgroup"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four nodes, each claiming 8 CPUs; who gets a signal differs between the two ways of tracking processes.

    Tests that don't care mark themselves: @pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True).
    """
    proctrack = cast(Proctrack, request.param)
    if proctrack == "cgroup" and isinstance(answer := cgroup.probe(), cgroup.Unusable):
        pytest.skip(answer.why)
    with Cluster(ClusterSpec(proctrack=proctrack)) as up:
        yield up


@pytest.fixture
def jobs(cluster: Cluster, tmp_path: Path) -> Iterator[Jobs]:
    """The helper for jobs. After the test every daemon runs, no job is left and all nodes are idle."""
    helper = Jobs(cluster, tmp_path)
    yield helper
    if not cluster.daemons.alive("slurmctld"):
        cluster.start_controller()
    for node in cluster.node_names:
        if not cluster.slurmd_alive(node):
            cluster.start_slurmd(node)
    helper.clear()
