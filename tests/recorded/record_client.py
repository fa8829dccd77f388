"""Record what Slurm's commands answer to our client: `python record_client.py FOLDER`. One file a promise, in a minute.

Each promise of the contract (tests/contract/slurm_client_contract.py) is kept by a real Slurm once, and every question
that our client asks is kept with its answer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from tests.contract.recorded_slurm import Recording
from tests.contract.slurm_client_contract import PROMISES
from tests.slurm.jobs import Jobs
from tests.slurm.real_scene import RealScene


def main(to: str) -> None:
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    with Cluster() as cluster, tempfile.TemporaryDirectory() as outputs:
        jobs = Jobs(cluster, Path(outputs))
        for promise in PROMISES:
            recording = Recording(cluster.spec.kill_wait_s)
            scene = RealScene.of(jobs, recording.run)
            promise(scene)
            recording.jobs = scene.made
            recording.write(folder / f"{promise.__name__}.json")
            jobs.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
