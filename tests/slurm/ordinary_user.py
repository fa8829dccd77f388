"""Run as an ordinary user: a sandbox of one's own, a job in it, preempted, queued again, finished."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from tests.slurm.jobs import PATIENCE_S, Jobs, wait_until

PROGRAM = """
trap 'echo heard >> "$0/heard"; exit 0' TERM
touch "$0/started-$SLURM_PROCID"
while [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; do sleep 0.1; done
"""


def main(folder: Path) -> None:
    assert os.geteuid() != 0
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    with Cluster(ClusterSpec(nodes=2)) as cluster:
        jobs = Jobs(cluster, folder)
        script = (
            f"exec '{sys.executable}' -m slurm_resilience.cli.srun_resilient --run-dir='{folder}/run' "
            f"bash '{folder}/program.sh'"
        )
        (folder / "program.sh").write_text(PROGRAM.replace("$0", str(folder)))
        job = jobs.submit(script, env=environment, nodes=2, requeue=True)
        wait_until(
            lambda: all((folder / f"started-{task}").exists() for task in (0, 1)),
            lambda: f"the tasks did not start: {jobs.output(job)}",
            PATIENCE_S,
        )
        jobs.preempt(job)
        state = jobs.wait_end(job)
        assert state == "COMPLETED", jobs.output(job)
        assert jobs.show(job)["Restarts"] == "1"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
