"""Slurm's host lists, `n[1-3,7]`: read by ClusterShell, which knows all of their syntax."""

from __future__ import annotations

from collections.abc import Sequence


def expand(nodes: str) -> list[str]:
    """The names in `nodes`, in Slurm's order; none where it can't be read.

    ClusterShell takes 50 ms to load: it is only asked once something has gone wrong.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        return list(NodeSet(nodes))
    except NodeSetException:
        return []


def fold(nodes: Sequence[str]) -> str:
    """For people: `n[1-3,7]`; names that make no host list are listed."""
    if len(nodes) == 1:
        return nodes[0]
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        return str(NodeSet.fromlist(list(nodes)))
    except NodeSetException:
        return ",".join(nodes)
