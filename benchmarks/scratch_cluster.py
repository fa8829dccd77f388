"""An embedded Slurm for one benchmark, with a folder for its jobs, both gone afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import REPOSITORY
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from tests.slurm.jobs import Jobs

SRUN_RESILIENT = f"{sys.executable} -m slurm_resilience.cli.srun_resilient"
"""As the console script does it, of this very checkout."""
TORCHRUN = f"{sys.executable} -m torch.distributed.run"


@contextlib.contextmanager
def scratch_cluster(spec: ClusterSpec) -> Iterator[Jobs]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Cluster(spec) as cluster:
        jobs = Jobs(cluster, Path(folder))
        try:
            yield jobs
        finally:
            jobs.clear()


def job_environment() -> dict[str, str]:
    """One thread a rank: the nodes share this machine's cores."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "GLOO_SOCKET_IFNAME": "lo"}
