"""Record what Slurm's commands answer to our client: `python record_client.py FOLDER [PROMISE...]`.

One file a promise, in two minutes.

Each promise of the contract (tests/contract/slurm_client_contract.py) is kept by a real Slurm once, and every question
that our client asks is kept with its answer. Each on a cluster of its own, so that no answer is full of other
promises' jobs. A promise that Slurm does not keep every time (tests/recorded/README.md names them) is tried again, and
that is said.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from slurm_resilience.sandbox.cluster import Cluster
from tests.contract.recorded_slurm import Recording
from tests.contract.slurm_client_contract import PROMISES
from tests.contract.slurm_scene import SlurmScene
from tests.slurm.jobs import Jobs
from tests.slurm.real_scene import RealScene

TRIES = 8


def main(to: str, *only: str) -> None:
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    for promise in PROMISES:
        if not only or promise.__name__ in only:
            record(promise, folder)


def record(promise: Callable[[SlurmScene], None], folder: Path) -> None:
    for remaining in reversed(range(TRIES)):
        # A cluster of its own: `my_jobs` would list the jobs of all promises before.
        with Cluster() as cluster, tempfile.TemporaryDirectory() as outputs:
            recording = Recording(cluster.spec.kill_wait_s, cluster.node_names)
            scene = RealScene.of(Jobs(cluster, Path(outputs)), recording.run)
            try:
                promise(scene)
            except BaseException as error:  # pytest's own failures are no Exception
                if not remaining or isinstance(error, KeyboardInterrupt):
                    raise
                print(f"{promise.__name__}: tried again after {error!r}", file=sys.stderr)
                continue
            recording.jobs = scene.made
            recording.write(folder / f"{promise.__name__}.json")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
