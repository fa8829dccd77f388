"""Preflight for an ordinary user, on nodes that are containers: each has its own network, /dev/shm and /etc."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.manifest.preflight_verdict import Then, read_verdict
from tests.clusters.cluster import ClusterUser
from tests.clusters.compose import ComposeCluster
from tests.clusters.running import Running
from tests.docker.second_network import second_network
from tests.slurm.jobs import JobsOn

THIS_MACHINE = "load,time-sync,kernel-log,memory,swap,leftovers,power,storage-speed"
"""What the machine of the tests is like is nothing that is planted here."""
QUICK = ("--no-all-reduce", f"--skip={THIS_MACHINE},versions")
"""Without what loads torch four times."""
MODULE = "-m slurm_resilience.cli.main preflight"
LIMIT_S = 120

KNOWS_ALL_BUT = """
cat /etc/hosts > /etc/hosts.kept
cp /etc/nsswitch.conf /etc/nsswitch.kept
for name in {known}; do getent hosts $name; done >> /etc/hosts
sed -i 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf
"""
KNOWS_ALL = "cat /etc/hosts.kept > /etc/hosts; cp /etc/nsswitch.kept /etc/nsswitch.conf"
FILL_SHARED_MEMORY = (
    "head -c $(df -B1 --output=avail /dev/shm | awk 'NR > 1 {print $1 - 33554432}') /dev/zero > /dev/shm/x"
)
SERVICES = ("slurmctld", "slurmdbd", "login")


class Preflight:
    def __init__(self, cluster: ComposeCluster, jobs: JobsOn, folder: Path) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.folder = folder
        self.nodes = list(cluster.node_names)
        self.environment = {**cluster.environment, "SLURM_RESILIENCE_BASELINES": str(folder / "baselines")}

    def words(self, *words: str) -> list[str]:
        return [self.cluster.python, *MODULE.split(), f"--time-limit={LIMIT_S}", "--json", *words]

    def look(self, *words: str, before: tuple[str, ...] = ()) -> dict[str, Any]:
        """From the login node; `before` stands before its words."""
        user = ClusterUser(self.cluster, self.cluster.ordinary_user)
        done = user.run(*before, *self.words(*words), timeout_s=LIMIT_S + 60, env=self.environment)
        assert done.out.startswith("{"), done.err
        report: dict[str, Any] = json.loads(done.out)
        assert report["exit_code"] == done.code
        return report

    @contextmanager
    def changed(self, node: str, script: str, back: str) -> Iterator[None]:
        """An admin's doing on that node, and undoing."""
        try:
            self._on(node, script)
            yield
        finally:
            self._on(node, back)

    def _on(self, node: str, script: str) -> None:
        self.cluster.engine.docker("exec", self.cluster.container(node), "sh", "-ec", script)


def bad(report: Mapping[str, Any]) -> dict[tuple[str, str | None], str]:
    """By check and node, what was not fine, as `outcome: sentence`."""
    return {
        (each["check"], each["node"]): f"{each['outcome']}: {each['sentence']}"
        for each in report["results"]
        if each["outcome"] not in ("ok", "skipped")
    }


@pytest.fixture
def preflight(docker_cluster: ComposeCluster, jobs: JobsOn, folder: Path) -> Preflight:
    return Preflight(docker_cluster, jobs, folder)


def test_healthy_nodes_are_fit_for_a_training(preflight: Preflight, docker_cluster: ComposeCluster) -> None:
    run = preflight.folder / "run"
    report = preflight.look("--nodes=4", f"--run-dir={run}")
    # The kernel of the machine that the tests run on may not keep its clock, and its disk may be busy.
    assert {check for check, _ in bad(report)} <= set(THIS_MACHINE.split(",")), bad(report)
    assert report["exit_code"] in (0, 1)
    assert report["nodes"] == preflight.nodes
    fine = {(each["check"], each["node"]) for each in report["results"] if each["outcome"] == "ok"}
    checks = [
        "presence",
        "clock",
        "names",
        "tcp",
        "shared-storage",
        *(["all-reduce"] if docker_cluster.has_torch else []),
    ]
    assert {(check, node) for check in checks for node in preflight.nodes} <= fine
    assert max(map(abs, report["clock_offsets_s"].values())) < 0.1, "all have the clock of one machine"
    assert not list(preflight.folder.glob("**/.preflight*"))


def test_as_a_step_of_a_job_it_starts_a_step_of_its_own_inside(preflight: Preflight) -> None:
    step = ("srun", "--quiet", "--nodes=3", "--ntasks-per-node=2")
    report = preflight.look("--only=presence,clock,names,tcp", before=step)
    assert (report["exit_code"], report["outcome"], len(report["nodes"])) == (0, "ok", 3), bad(report)


def test_a_name_that_one_node_does_not_know_and_shared_memory_that_is_full_on_another(preflight: Preflight) -> None:
    first, second, third, _ = preflight.nodes
    known = " ".join([*(node for node in preflight.nodes if node not in (first, second)), *SERVICES])
    with (
        preflight.changed(second, KNOWS_ALL_BUT.format(known=known), KNOWS_ALL),
        preflight.changed(third, FILL_SHARED_MEMORY, "rm -f /dev/shm/x"),
    ):
        report = preflight.look("--nodes=4", f"--run-dir={preflight.folder / 'run'}", *QUICK)
    found = bad(report)
    assert set(found) == {("names", second), ("shared-memory", third)}, found
    assert found["names", second].startswith(f"fail: {second} can't resolve {first}: ")
    assert found["shared-memory", third].startswith("fail: ")
    assert (report["exit_code"], report["exclude"]) == (2, [second, third])


def test_a_node_whose_data_network_is_another_one(preflight: Preflight, docker_cluster: ComposeCluster) -> None:
    second = preflight.nodes[1]
    with second_network(docker_cluster, elsewhere=[second]) as interface:
        report = preflight.look("--nodes=4", f"--interface={interface}", *QUICK)
    found = bad(report)
    assert list(found) == [("tcp", second)], found
    assert "can't connect to" in found["tcp", second]
    assert report["exclude"] == [second]


def test_a_node_that_is_cut_off_while_its_job_waits_is_named_and_the_others_are_looked_at(
    preflight: Preflight, docker_cluster: ComposeCluster
) -> None:
    second, go, said = preflight.nodes[1], preflight.folder / "go", preflight.folder / "said"
    words = " ".join(preflight.words("--only=presence,clock,names,tcp", f"--output={said}"))
    script = f"until [ -e {go} ]; do sleep 0.2; done\n{words}\necho code $?"
    job = preflight.jobs.submit(script, env=preflight.environment, nodes=4, no_kill=True)
    preflight.jobs.wait_state(job, "RUNNING")
    docker_cluster.cut_network(second)
    try:
        go.touch()
        output = preflight.jobs.wait_output(job, "code ", timeout_s=180)
    finally:
        docker_cluster.mend_network(second)  # Slurm may not have noticed yet, and `restore` wouldn't, either
    assert "code 2" in output
    report = json.loads(said.read_text())
    assert list(bad(report)) == [("presence", second)], bad(report)
    assert report["exclude"] == [second]
    fine = {(each["check"], each["node"]) for each in report["results"] if each["outcome"] == "ok"}
    assert {("tcp", node) for node in preflight.nodes if node != second} <= fine


def test_with_a_node_to_spare_the_training_runs_without_the_unfit_one(
    preflight: Preflight, docker_cluster: ComposeCluster
) -> None:
    job_nodes = preflight.nodes[:3]
    second = job_nodes[1]
    options = f"--preflight --preflight-skip={THIS_MACHINE},versions,all-reduce -N2 -n2"
    with preflight.changed(second, FILL_SHARED_MEMORY, "rm -f /dev/shm/x"):
        running = Running.light(
            docker_cluster, preflight.jobs, options=options, step_s=0.02, nodes=3, nodelist=",".join(job_nodes)
        )
        running.wait_finished()
    running.check()
    running.check_light()
    verdict = read_verdict(running.run, 1)
    assert verdict is not None
    assert verdict.then is Then.GO_ON_WITHOUT, running.story()
    assert f"{second}" in running.jobs.output(running.job)
