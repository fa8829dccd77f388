"""A second network between the nodes, for their data, as clusters have; any node may be plugged into the wrong one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.clusters.compose import ComposeCluster
from tests.clusters.guard import start_guard

MOST_PLUGS = 40
"""A node's interface gets the next number each time that the node is plugged in, and keeps none."""


@contextmanager
def second_network(cluster: ComposeCluster, *, elsewhere: Sequence[str]) -> Iterator[str]:
    """The name of its interface on all nodes. Those `elsewhere` have one, too, which leads to a network of its own."""
    mark = f"slurm-test-data-{secrets.token_hex(4)}"
    network_of = {node: f"{mark}-{'other' if node in elsewhere else 'data'}" for node in cluster.node_names}
    networks = sorted(set(network_of.values()))
    unplug = [_words("disconnect", "--force", network, cluster.container(node)) for node, network in network_of.items()]
    guard = start_guard(*unplug, *(_words("rm", network) for network in networks), env={})
    try:
        for network in networks:
            cluster.engine.docker("network", "create", network)
        yield f"eth{_plug_in_alike(cluster, network_of)}"
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(timeout=120)


def _plug_in_alike(cluster: ComposeCluster, network_of: dict[str, str]) -> int:
    """Under one number on all nodes: on some, the tests before may have used up more of them."""
    numbers = {node: _plug_in(cluster, node, network) for node, network in network_of.items()}
    for _ in range(MOST_PLUGS):
        behind = next((node for node, number in numbers.items() if number < max(numbers.values())), None)
        if behind is None:
            return max(numbers.values())
        cluster.engine.docker("network", "disconnect", network_of[behind], cluster.container(behind))
        numbers[behind] = _plug_in(cluster, behind, network_of[behind])
    raise AssertionError(f"the interfaces of the second network have different names: {numbers}")


def _plug_in(cluster: ComposeCluster, node: str, network: str) -> int:
    before = _interfaces(cluster, node)
    cluster.engine.docker("network", "connect", network, cluster.container(node))
    [number] = _interfaces(cluster, node) - before
    return number


def _interfaces(cluster: ComposeCluster, node: str) -> set[int]:
    listed = cluster.engine.docker("exec", cluster.container(node), "ls", "/sys/class/net").out
    return {int(number) for number in re.findall(r"^eth(\d+)$", listed, re.MULTILINE)}


def _words(*words: str) -> list[str]:
    return ["docker", "network", *words]
