"""Names of nodes as Slurm writes them: `n[1-4,7]`."""

from __future__ import annotations

from collections.abc import Iterable


def united(lists: Iterable[str]) -> str:
    """All nodes of all lists, name by name: not every folding of names is one that Slurm can read (`n[1-2]-ib`)."""
    from ClusterShell.NodeSet import NodeSet  # it takes a while to load, and is needed rarely

    nodes = NodeSet()
    for names in lists:
        if names and names != "(null)":
            nodes.update(NodeSet(names))
    return ",".join(nodes)
