"""A cluster with the SPANK plugin of this source tree, and what it leaves on the nodes.

A test module imports the fixtures by their names and says on which clusters it runs: `pytestmark = BOTH`.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.config import ClusterSpec, Proctrack
from tests.clusters.cluster import ClusterUnderTest
from tests.clusters.compose import ComposeCluster
from tests.clusters.embedded import EmbeddedCluster
from tests.integration.spank_build import KILL_WAIT_S, Builds, whats_missing
from tests.slurm.jobs import PATIENCE_S, wait_until

CLUSTER = "cluster_under_test"
BOTH = pytest.mark.parametrize(CLUSTER, ["plugin", "docker"], indirect=True)
"""Where nothing depends on how Slurm tracks processes."""
ALL_THREE = pytest.mark.parametrize(CLUSTER, ["plugin", "cgroup", "docker"], indirect=True)
RANK = Path(__file__).with_name("spank_rank.py")
_STACK = pytest.StashKey[contextlib.ExitStack]()
_SITES = pytest.StashKey[dict[str, "SpankSite"]]()

LOOK = """
import json, os, sys
runtime, spool, node = sys.argv[1:]
relays = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline").read().split("\\0")
    except OSError:
        continue
    if f"--runtime={runtime}" in words and f"--node={node}" in words:
        relays.append([int(pid), *(word[6:] for word in words if word.startswith("--job="))])
spooled = {}
for name in os.listdir(spool) if os.path.isdir(spool) else ():
    try:
        spooled[name] = open(os.path.join(spool, name)).read()
    except OSError:
        pass
print(json.dumps([relays, [name for name in os.listdir(runtime) if "slurm-resilience" in name], spooled]))
"""
"""Runs on a node, as root: the relays, their folders and the spool there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What of ours is on a node. The embedded cluster has one place for the runtime folders of all its nodes."""

    relays: dict[int, str]
    """Pid to the life of the job that it serves."""
    folders: tuple[str, ...]
    spool: dict[str, str]
    """Name to text."""

    def spooled(self, job: str) -> dict[str, str]:
        return {name: text for name, text in self.spool.items() if name.startswith(f"{job}.")}


@dataclass(frozen=True, slots=True)
class SpankSite:
    """A cluster whose slurmds were started with the plugin."""

    cluster: ClusterUnderTest
    builds: Builds

    @contextlib.contextmanager
    def lines(self, *lines: str) -> Iterator[None]:
        """These are the site's plugstack lines meanwhile."""
        former = self.cluster.plugstack(lines)
        try:
            yield
        finally:
            self.cluster.plugstack(former)

    def on_node(self, node: str, *argv: str, timeout_s: float = 60) -> Completed:
        """A command on that node, as root."""
        if isinstance(self.cluster, ComposeCluster):
            return run(["docker", "exec", self.cluster.container(node), *argv], timeout_s=timeout_s)
        return run(argv, timeout_s=timeout_s)

    def look(self, node: str) -> Seen:
        spool = self.builds.spool.replace("%n", node)
        answer = self.on_node(node, "python3", "-c", LOOK, self.builds.runtime, spool, node)
        assert answer.code == 0, answer.complaint
        relays, folders, spooled = json.loads(answer.out)
        return Seen(dict(relays), tuple(folders), spooled)

    def wait_gone(self, *nodes: str, job: str = "") -> None:
        """Until no relay of the job (of any job) runs on these nodes (on all), and no runtime folder lies there."""

        def left(node: str) -> list[object]:
            seen = self.look(node)
            relays = [life for life in seen.relays.values() if life.startswith(job)]
            return [*relays, *(name for name in seen.folders if f"-relay-{job}" in name)]

        where = nodes or self.cluster.node_names
        wait_until(
            lambda: not any(left(node) for node in where),
            lambda: f"what is left: {list(map(left, where))}",
            PATIENCE_S,
        )

    def reasons(self) -> str:
        """Which nodes are drained or down, and why; empty: none is."""
        answer = self.cluster.run("sinfo", "-h", "-N", "-o", "%N %T %E")
        assert answer.code == 0, answer.complaint
        return "\n".join(line for line in answer.out.splitlines() if line.split(None, 2)[2].strip() != "none")

    def log(self, node: str) -> str:
        """What slurmd and its slurmstepds have said there."""
        if isinstance(self.cluster, EmbeddedCluster):
            return self.cluster.sandbox.layout.log(f"slurmd-{node}").read_text(errors="replace")
        return self.on_node(node, "cat", "/var/log/slurm/slurmd.log").out


def _sites(config: pytest.Config) -> tuple[dict[str, SpankSite], contextlib.ExitStack]:
    if _STACK not in config.stash:
        config.stash[_STACK] = contextlib.ExitStack()
        config.stash[_SITES] = {}
        config.add_cleanup(config.stash[_STACK].close)
    return config.stash[_SITES], config.stash[_STACK]


def embedded_site(config: pytest.Config, proctrack: Proctrack) -> SpankSite:
    """One per process and kind of tracking, until the end of the session."""
    sites, stack = _sites(config)
    if proctrack in sites:
        return sites[proctrack]
    if missing := whats_missing():
        pytest.skip(missing)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-spank-", dir="/tmp")))
    folder.chmod(0o755)
    builds = Builds(folder, by_docker=False, spool=f"{folder}/spool-%n", runtime=f"{folder}/runtime")
    Path(builds.runtime).mkdir()
    Path(builds.runtime).chmod(0o1777)
    # slurmd calls plugins before and after jobs only if it had some when it started.
    spec = ClusterSpec(proctrack=proctrack, kill_wait_s=KILL_WAIT_S, plugstack=(builds.line(),))
    try:
        cluster = stack.enter_context(EmbeddedCluster(spec))
    except ConfigurationError as error:
        pytest.skip(str(error))
    sites[proctrack] = SpankSite(cluster, builds)
    return sites[proctrack]


def docker_site(config: pytest.Config, cluster: ClusterUnderTest) -> SpankSite:
    sites, _ = _sites(config)
    if "docker" not in sites:
        folder = cluster.shared / "spank"
        folder.mkdir()
        folder.chmod(0o755)
        spool, runtime = "/var/spool/slurm-resilience", "/dev/shm"
        sites["docker"] = SpankSite(cluster, Builds(folder, by_docker=True, spool=spool, runtime=runtime))
    return sites["docker"]


@pytest.fixture(scope="session")
def plugin_cluster(request: pytest.FixtureRequest) -> ClusterUnderTest:
    """The embedded cluster with the plugin."""
    return embedded_site(request.config, "linuxproc").cluster


@pytest.fixture(scope="session")
def cgroup_cluster(request: pytest.FixtureRequest) -> ClusterUnderTest:
    """The same, where a job's signals reach its tasks alone."""
    return embedded_site(request.config, "cgroup").cluster


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, cluster_under_test: ClusterUnderTest) -> Iterator[SpankSite]:
    """With the plugin of the source tree; afterwards nothing of it may be left anywhere."""
    match cluster_under_test:
        case ComposeCluster():
            found = docker_site(request.config, cluster_under_test)
        case _:
            sites, _ = _sites(request.config)
            found = next(each for each in sites.values() if each.cluster is cluster_under_test)
    with found.lines(found.builds.line()):
        yield found
    found.wait_gone()


@pytest.fixture(autouse=True)
def no_node_is_drained(request: pytest.FixtureRequest, site: SpankSite) -> Iterator[None]:
    """By whatever a test does. Looked at before the cluster is put in order again."""
    if "jobs" in request.fixturenames:
        request.getfixturevalue("jobs")
    yield
    assert site.reasons() == ""
