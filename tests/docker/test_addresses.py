"""Every node has an address and a name of its own: there the ranks of all nodes must find each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from tests.clusters.compose import ComposeCluster
from tests.clusters.running import Running
from tests.slurm.jobs import JobsOn

PROGRAM = """
import os, socket, sys
from pathlib import Path
import torch, torch.distributed as dist

dist.init_process_group("gloo")
sum = torch.ones(1)
dist.all_reduce(sum)
said = f"{int(sum)} of {os.environ['WORLD_SIZE']} on {socket.gethostname()} by {os.environ['MASTER_ADDR']}"
Path(sys.argv[1], f"rank-{os.environ['RANK']}").write_text(said)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_the_ranks_of_all_nodes_meet_at_the_first_nodes_own_address(
    docker_cluster: ComposeCluster, jobs: JobsOn, folder: Path, nodes: int
) -> None:
    if not docker_cluster.has_torch:
        pytest.skip("the image has no torch")
    (folder / "program.py").write_text(PROGRAM)
    words = f"--nproc-per-node=1 {docker_cluster.python} {folder}/program.py {folder}"
    running = Running.submit(docker_cluster, jobs, words, {"nodes": nodes})
    assert jobs.wait_end(running.job, timeout_s=150) == "COMPLETED", running.story()
    assert running.causes == [Cause.FINISHED]
    names = running.nodes
    assert len(set(names)) == nodes
    host = str(json.loads(running.run.rendezvous(1).read_bytes())["host"])
    assert host in (names[0], docker_cluster.address(names[0]))
    for rank, name in enumerate(names):
        assert (folder / f"rank-{rank}").read_text() == f"{nodes} of {nodes} on {name} by {host}"
