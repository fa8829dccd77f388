"""The training with torch that nobody disturbs: once per cluster and test process."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.manifest.run_directory import RunDirectory
from tests.clusters.cluster import ClusterUnderTest
from tests.clusters.running import Running
from tests.slurm.jobs import JobsOn

FOLDER = "undisturbed"


def undisturbed(cluster: ClusterUnderTest, jobs: JobsOn) -> Running:
    """Skips the test where the cluster has no torch."""
    if not cluster.has_torch:
        pytest.skip(f"the {cluster.name} cluster has no torch")
    folder = cluster.shared / FOLDER
    if not folder.exists():
        running = Running.digits(cluster, jobs, step_s=0, run=_open_to_all(folder) / "run")
        running.wait_finished()
        assert len(running.attempts) == 1, running.story()
    return Running(cluster, jobs, "", RunDirectory(folder / "run"), "")


def _open_to_all(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o777)
    return folder
