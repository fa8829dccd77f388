"""What a test leaves behind is put in order, so that the next one finds the cluster as new."""

from __future__ import annotations

import re
from pathlib import Path

from tests.clusters.cluster import ClusterUnderTest, ClusterUser
from tests.slurm.jobs import JobsOn, wait_until

SERVING = frozenset({"idle", "mixed", "allocated", "completing"})


def folder_for(cluster: ClusterUnderTest, test: str) -> Path:
    """A new folder that everybody may write in, under one path everywhere."""
    folder = cluster.shared / re.sub(r"\W+", "-", test).strip("-")
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def restore(cluster: ClusterUnderTest) -> None:
    """Controller, nodes and networks are up, no job is left, all nodes are idle."""
    jobs = JobsOn(ClusterUser(cluster), cluster.shared)
    states = jobs.node_states()
    if set(states) != set(cluster.node_names) or any(state.rstrip("*") not in SERVING for state in states.values()):
        cluster.start_controller()
        for node in cluster.node_names:
            cluster.mend_network(node)
            cluster.node_returns(node)
    jobs.clear()


def tell_slurm(cluster: ClusterUnderTest, *lost: str) -> None:
    """That these nodes are lost, as an admin does who sees it first: Slurm needs up to a minute to notice.

    Where the nodes can't be reached the controller gives no answer in time to that, and does it all the same (24.11).
    """
    words = ("scontrol", "update", f"NodeName={','.join(lost)}", "State=DOWN", "Reason=lost")
    said = cluster.run(*words, timeout_s=90)
    wait_until(
        lambda: all(cluster.node_states().get(node, "").startswith("down") for node in lost),
        lambda: f"{lost} are not down: {said.complaint}; {cluster.node_states()}",
        90,
    )
