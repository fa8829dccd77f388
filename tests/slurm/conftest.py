"""A real Slurm for every test here: one cluster per proctrack and test process, cleared after each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from slurm_resilience.sandbox import cgroup
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec, Proctrack
from tests.slurm.jobs import LONG_KILL_WAIT, LONG_KILL_WAIT_S, Jobs


@pytest.fixture(scope="session", params=["linuxproc", "cgroup"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four nodes, each claiming 8 CPUs; who gets a signal differs between the two ways of tracking processes.

    Tests that don't care mark themselves: @pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True).
    With LONG_KILL_WAIT behind it, it is a cluster of its own.
    """
    given = str(request.param)
    proctrack = cast(Proctrack, given.removesuffix(LONG_KILL_WAIT))
    if proctrack == "cgroup" and isinstance(answer := cgroup.probe(), cgroup.Unusable):
        pytest.skip(answer.why)
    spec = ClusterSpec(proctrack=proctrack)
    with Cluster(replace(spec, kill_wait_s=LONG_KILL_WAIT_S) if given.endswith(LONG_KILL_WAIT) else spec) as up:
        yield up


@pytest.fixture
def jobs(cluster: Cluster, tmp_path: Path) -> Iterator[Jobs]:
    """The helper for jobs. After the test every daemon runs, no job is left and all nodes are idle."""
    helper = Jobs(cluster, tmp_path)
    yield helper
    if not cluster.daemons.alive("slurmctld"):
        helper.cluster.start_controller()
    helper.start_slurmds()
    helper.clear()
