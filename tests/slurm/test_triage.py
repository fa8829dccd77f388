"""What `slurm-resilience triage` says of trainings to which something was done on a real Slurm.

Here triage looks where it happened, and may ask Slurm; of plain torchrun it has the outputs alone. More such runs lie
recorded in tests/failures. Those of one test share the cluster: two at a time, on two nodes each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurm_resilience.sandbox.cluster import Cluster
from tests.clusters.embedded import EmbeddedCluster
from tests.failures.record_keep import ROOT
from tests.failures.record_scene import Scene
from tests.failures.record_stage import Stage
from tests.slurm.jobs import PATIENCE_S, Jobs
from tests.slurm.triage_scenes import ENDED, FAILED

pytestmark = [
    pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True),
    pytest.mark.timeout(900),  # seven trainings with torch, two at a time
]


def test_triage_names_cause_first_rank_and_node_of_trainings_that_failed(jobs: Jobs) -> None:
    assert differences(jobs, FAILED) == {}


def test_triage_names_what_slurm_did_to_trainings_and_the_node_that_was_lost(jobs: Jobs) -> None:
    assert differences(jobs, ENDED) == {}


def differences(jobs: Jobs, scenes: Sequence[Scene]) -> dict[str, list[str]]:
    """Play them all at once, as far as there are nodes; by name, in what triage is wrong about them."""
    with ThreadPoolExecutor(len(scenes)) as threads:
        said = list(threads.map(lambda scene: difference(jobs, scene), scenes))
    return {scene.name: wrong for scene, wrong in zip(scenes, said, strict=True) if wrong}


def difference(jobs: Jobs, scene: Scene) -> list[str]:
    folder = jobs.folder / scene.name
    folder.mkdir()
    stage = Stage(as_cluster_under_test(jobs.cluster), scene, folder, Jobs(jobs.cluster, folder))
    stage.play()
    nodes = {f"n{number}": node for number, node in enumerate(stage.nodes, 1)}
    read = [stage.run.path] if stage.run.journal.exists() else stage.outputs()
    assert scene.expect is not None
    account = triage(jobs.cluster, read)
    wrong = scene.expect.differences(account, nodes)
    return [*wrong, json.dumps(account), stage.told()] if wrong else []


def triage(cluster: Cluster, read: Sequence[Path]) -> dict[str, object]:
    words = (sys.executable, "-m", "slurm_resilience.cli.main", "triage", "--json", *map(str, read))
    answer = cluster.run(*words, timeout_s=PATIENCE_S, env={"PYTHONPATH": str(ROOT)})
    assert answer.code == 0, f"{answer.complaint} {answer.out}"
    account: dict[str, object] = json.loads(answer.out)
    return account


def as_cluster_under_test(cluster: Cluster) -> EmbeddedCluster:
    """With what it can do to nodes; whoever made the cluster also ends it."""
    embedded = EmbeddedCluster()
    embedded._cluster = cluster
    return embedded
