"""Preflight on a real Slurm finds each planted fault, names the node, and finds nothing else.

The nodes of the embedded cluster are on one machine: here each one's preflight process lives in a network, a mount and
a host-name namespace of its own, so that a name, a port, a line, a clock or a mount can be bad on the second one alone.
That needs root; an ordinary user's tests are those that need none.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.sandbox.cluster import Cluster
from tests.faulty_fs.disk import FaultyDisk, why_missing
from tests.preflight.network import Network, why_impossible, write_world

REPOSITORY = Path(__file__).parents[2]
THIS_MACHINE = "load,time-sync,kernel-log,memory,swap,leftovers,power,storage-speed"
"""What the machine of the tests is like is not what is planted here."""
LIGHT = ("--no-all-reduce", "--skip=versions")
"""Without what loads torch four times."""

LIMIT_S = 180
"""Preflight's own is a minute, and so long may four torches take to load here when the machine is busy."""

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
WHY_IMPOSSIBLE = why_impossible()
in_namespaces = pytest.mark.skipif(bool(WHY_IMPOSSIBLE), reason=WHY_IMPOSSIBLE)


class Preflight:
    """Four nodes in a network; what each test changes, then one run of preflight on them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self.nodes = list(cluster.node_names)
        self.second = self.nodes[1]
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.network = Network(self.nodes)
        """Only where the fixture has made it: an ordinary user's nodes are as they are."""
        self.changes: dict[str, Any] = {}
        """Of the second node's world."""

    def look(self, *words: str) -> dict[str, Any]:
        world = {node: {} for node in self.nodes} if WHY_IMPOSSIBLE else self.network.world(self._folder)
        world[self.second] |= self.changes
        environment = write_world(self._folder, world)
        environment["PYTHONPATH"] += f":{REPOSITORY}"
        environment["SLURM_RESILIENCE_BASELINES"] = str(self._folder / "baselines")
        argv = [sys.executable, "-m", "slurm_resilience.cli.main", "preflight", f"--nodes={','.join(self.nodes)}"]
        argv += [f"--run-dir={self.run_dir}", f"--skip={THIS_MACHINE}", f"--time-limit={LIMIT_S}", "--json", *words]
        done = self._cluster.run(*argv, timeout_s=2 * LIMIT_S, env=environment)
        assert done.out.startswith("{"), done.err
        report: dict[str, Any] = json.loads(done.out)
        assert report["exit_code"] == done.code
        return report

    def bad(self, *words: str) -> dict[tuple[str, str | None], str]:
        """By check and node, what was not fine, as `outcome: sentence`."""
        return {
            (each["check"], each["node"]): f"{each['outcome']}: {each['sentence']}"
            for each in self.look(*words)["results"]
            if each["outcome"] not in ("ok", "skipped")
        }


@pytest.fixture
def preflight(cluster: Cluster, tmp_path: Path) -> Iterator[Preflight]:
    scene = Preflight(cluster, tmp_path)
    with contextlib.nullcontext() if WHY_IMPOSSIBLE else scene.network:
        yield scene


def test_healthy_nodes_are_fine_and_their_speed_is_told(preflight):
    report = preflight.look()
    assert [each for each in report["results"] if each["outcome"] not in ("ok", "skipped")] == []
    assert report["exit_code"] == 0
    by_check = {each["check"]: each for each in report["results"]}
    assert {"names", "tcp", "shared-storage", "all-reduce", "same-versions"} <= set(by_check)
    assert by_check["all-reduce"]["outcome"] == "ok"
    assert by_check["all-reduce"]["measured"]["job_bus_bytes_per_s"] > 0
    assert list(preflight.run_dir.glob(".preflight*")) == []


@in_namespaces
def test_a_name_that_doesnt_resolve_on_one_node(preflight):
    first, second = preflight.nodes[:2]
    preflight.network.without = {second: [first]}
    bad = preflight.bad("--skip=versions")
    assert list(bad) == [("names", second)]
    assert f"fail: {second} can't resolve {first}" in bad["names", second]


def test_a_node_that_can_resolve_nothing(preflight):
    preflight.changes = {"deaf": True}
    bad = preflight.bad(*LIGHT)
    assert list(bad) == [("names", preflight.second)]


@in_namespaces
def test_a_port_that_is_blocked_on_one_node(preflight):
    preflight.network.drop(preflight.second, ports="15000:31999")
    bad = preflight.bad(*LIGHT)
    assert list(bad) == [("tcp", preflight.second)]
    assert f"of {preflight.second} (10.231.7.2): no answer: a firewall drops" in bad["tcp", preflight.second]


@in_namespaces
def test_a_slow_line_of_one_node_shows_in_its_transfers(preflight):
    preflight.network.slow(preflight.second, "1mbit")
    bad = preflight.bad(*LIGHT)
    assert list(bad) == [("tcp", preflight.second)]
    assert f"warn: {preflight.second}'s network is slow" in bad["tcp", preflight.second]


@in_namespaces
def test_a_line_that_is_not_as_fast_as_the_others_shows_in_the_all_reduce(preflight):
    preflight.network.slow(preflight.second, "200mbit")
    bad = preflight.bad("--skip=versions")
    assert list(bad) == [("all-reduce", preflight.second)]
    assert f"warn: {preflight.second} is slow" in bad["all-reduce", preflight.second]


def test_another_version_of_torch_on_one_node(preflight):
    preflight.changes = {"torch": "2.12.0"}
    bad = preflight.bad("--no-all-reduce")
    assert list(bad) == [("same-versions", preflight.second)]
    assert f"fail: {preflight.second} has torch 2.12.0 (the others: 2." in bad["same-versions", preflight.second]


def test_a_clock_that_is_two_minutes_ahead(preflight):
    preflight.changes = {"ahead_s": 120}
    bad = preflight.bad(*LIGHT)
    assert list(bad) == [("clock", preflight.second)]
    assert bad["clock", preflight.second].startswith("fail: ")


@in_namespaces
def test_a_run_directory_that_one_node_doesnt_share(preflight):
    preflight.changes = {"mounts": [["tmpfs", "size=1g", str(preflight.run_dir)]]}
    bad = preflight.bad(*LIGHT)
    assert list(bad) == [("shared-storage", preflight.second)]
    assert f"is not the same on {preflight.second}" in bad["shared-storage", preflight.second]


@in_namespaces
def test_a_run_directory_that_is_read_only_on_one_node(preflight):
    path = str(preflight.run_dir)
    preflight.changes = {"mounts": [["read-only", path, path]]}
    bad = preflight.bad(*LIGHT)
    assert {node for _, node in bad} == {preflight.second}
    assert {check for check, _ in bad} <= {"storage", "storage-speed"}
    assert bad["storage", preflight.second].startswith("fail: ")


@in_namespaces
def test_a_disk_that_is_full(preflight):
    """The run directory's own: it is full for all nodes."""
    path = str(preflight.run_dir)
    with contextlib.ExitStack() as after:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", path], check=True, timeout=30)
        after.callback(subprocess.run, ["umount", "-l", path], check=False, timeout=30)
        with contextlib.suppress(OSError):
            (preflight.run_dir / "full").write_bytes(bytes(1 << 20))
        bad = preflight.bad(*LIGHT)
    assert {check for check, _ in bad} <= {"storage", "storage-space", "storage-speed"}
    assert {node for _, node in bad} == set(preflight.nodes)
    assert bad["storage", preflight.second].startswith("fail: ")


@in_namespaces
@pytest.mark.skipif(bool(missing := why_missing()), reason=missing)
def test_a_mount_that_hangs_on_one_node(preflight, tmp_path):
    (tmp_path / "below").mkdir()
    with FaultyDisk(tmp_path / "below") as disk:
        preflight.changes = {"mounts": [["bind", str(disk.path), str(preflight.run_dir)]]}
        disk.fail("mkdir", times=0, hang=True)
        disk.fail("open", times=0, hang=True)
        bad = preflight.bad(*LIGHT)
    assert {node for _, node in bad} == {preflight.second}
    assert {check for check, _ in bad} <= {"storage", "storage-space", "shared-storage"}
    assert bad["storage", preflight.second].startswith("fail: no answer within")
