"""Record runs anew, as root, from the top of the repository:

    PYTHONPATH=. python tests/failures/record.py [--expectations] [NAME…]

Each scene of record_faults.py and record_healthy.py is played on a sandbox; what it leaves lies in
tests/failures/runs/NAME afterwards. All of them take about a quarter of an hour on two cores. With --expectations
nothing is played: only what triage has to say of them is written down again.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable

from slurm_resilience.sandbox.config import ClusterSpec
from tests.clusters.embedded import EmbeddedCluster
from tests.failures.record_faults import FAULTS
from tests.failures.record_healthy import HEALTHY
from tests.failures.record_keep import RUNS, keep_expectation
from tests.failures.record_scene import Scene
from tests.failures.record_stage import perform

PLAIN = ClusterSpec()
WITH_MEMORY = ClusterSpec(proctrack="cgroup", extra=("TaskPlugin=task/cgroup", "SelectTypeParameters=CR_Core_Memory"))
CONSTRAINED = "ConstrainRAMSpace=yes\nAllowedSwapSpace=0\nConstrainSwapSpace=no\n"


def record(scenes: Iterable[Scene], *, memory_cgroup: bool) -> int:
    """How many of them could not be recorded."""
    chosen = [scene for scene in scenes if scene.memory_cgroup == memory_cgroup]
    if not chosen:
        return 0
    with EmbeddedCluster(WITH_MEMORY if memory_cgroup else PLAIN) as cluster:
        if memory_cgroup:
            with cluster.sandbox.layout.cgroup_conf.open("a") as conf:
                conf.write(CONSTRAINED)
            for node in cluster.node_names:
                cluster.sandbox.kill_slurmd(node)
                cluster.node_returns(node)
        return sum(not played(cluster, scene) for scene in chosen)


def played(cluster: EmbeddedCluster, scene: Scene) -> bool:
    try:
        print(f"{scene.name}: {perform(cluster, scene):.0f} s", flush=True)
    except Exception:  # noqa: BLE001  # the others are still to be recorded
        print(f"{scene.name} could not be recorded:\n{traceback.format_exc()}", flush=True)
        return False
    return True


def main(words: list[str]) -> int:
    os.umask(0o022)
    names = [word for word in words if word != "--expectations"]
    every = [*FAULTS, *HEALTHY]
    unknown = set(names) - {scene.name for scene in every}
    if unknown:
        print(f"there is no scene {min(unknown)}", file=sys.stderr)
        return 2
    chosen = [scene for scene in every if not names or scene.name in names]
    if "--expectations" in words:
        for scene in chosen:
            if (RUNS / scene.name).exists():
                keep_expectation(scene)
        return 0
    return min(1, record(chosen, memory_cgroup=False) + record(chosen, memory_cgroup=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
