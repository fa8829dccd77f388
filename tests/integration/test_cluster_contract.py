"""What every cluster under test promises to the other tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from slurm_resilience.errors import CommandMissing, CommandTimedOut
from tests.clusters.cluster import ClusterUnderTest, Impossible
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until

pytestmark = pytest.mark.quick
STAYS = "touch here-$SLURMD_NODENAME; exec sleep 600"


def marker_of(folder: Path) -> str:
    return f"contract-{os.getpid()}-{folder.name}"


def running(cluster: ClusterUnderTest, jobs: JobsOn, nodes: int = 1) -> tuple[str, tuple[str, ...], str]:
    """A job with one sleeping task a node: its id, its nodes, its mark."""
    marker = marker_of(jobs.folder)
    script = f"srun bash -c '{STAYS}'"
    job = jobs.submit(script, marker=marker, nodes=nodes, ntasks_per_node=1, requeue=True)
    jobs.wait_state(job, "RUNNING")
    names = tuple(jobs.ask("scontrol", "show", "hostnames", jobs.show(job)["NodeList"]).out.split())
    wait_until(
        lambda: all(cluster.processes(node, marker) and (jobs.folder / f"here-{node}").exists() for node in names),
        lambda: f"the tasks do not run: {jobs.output(job)}",
        PATIENCE_S,
    )
    return job, names, marker


def test_all_nodes_serve_and_are_known_by_name(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    cluster = cluster_under_test
    assert len(cluster.node_names) >= 4
    assert cluster.node_states() == dict.fromkeys(cluster.node_names, "idle")
    assert jobs.ask("sinfo", "--version").out.split()[-1] == cluster.version


def test_a_command_runs_as_the_user_with_the_environment_that_is_given(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    answer = cluster.run("sh", "-c", 'echo "$GREETING"; id -un', env={"GREETING": "a b"}, user=cluster.ordinary_user)
    assert (answer.code, answer.out.splitlines()) == (0, ["a b", cluster.ordinary_user])
    failing = cluster.run("sh", "-c", "echo no >&2; exit 3")
    assert (failing.code, failing.err) == (3, "no\n")


def test_a_command_that_is_missing_or_slow_is_said_to_be(cluster_under_test: ClusterUnderTest) -> None:
    with pytest.raises(CommandMissing):
        cluster_under_test.run("no-such-program")
    with pytest.raises(CommandTimedOut):
        cluster_under_test.run("sleep", "60", timeout_s=1)


def test_everybody_writes_in_the_shared_folder_under_one_path(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    (jobs.folder / "said").write_text("by the test")
    script = f'srun sh -c "cat {jobs.folder}/said > {jobs.folder}/heard-\\$SLURM_PROCID"'
    job = jobs.submit(script, nodes=2, ntasks_per_node=1)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    for task in "01":
        heard = jobs.folder / f"heard-{task}"
        wait_until(heard.exists, f"{heard} is not seen", PATIENCE_S)
        assert heard.read_text() == "by the test"


def test_the_nodes_have_the_package_and_what_it_needs(cluster_under_test: ClusterUnderTest, jobs: JobsOn) -> None:
    cluster = cluster_under_test
    torch = "torch, h5py, " if cluster.has_torch else ""
    code = f"import {torch}slurm_resilience.cli.srun_resilient as found; print(found.__file__)"
    job = jobs.submit(["srun", cluster.python, "-c", code], env=cluster.environment, nodes=2, ntasks_per_node=1)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    expected = str(cluster.repository / "slurm_resilience" / "cli" / "srun_resilient.py")
    assert jobs.wait_output(job, expected).split().count(expected) == 2


def test_a_signal_reaches_the_marked_processes_of_one_node_only(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    job, (first, second), marker = running(cluster, jobs, nodes=2)
    assert cluster.kill(second, marker, signal.SIGKILL, "sleep 600", but="sleep") == 0
    assert cluster.kill(second, "somebody else's", signal.SIGKILL) == 0
    assert cluster.kill(second, marker, signal.SIGKILL, "sleep 600") == 1
    wait_until(lambda: not cluster.processes(second, marker), "the task lives on", PATIENCE_S)
    assert any("sleep 600" in process.command for process in cluster.processes(first, marker))
    jobs.cancel(job)
    wait_until(lambda: not cluster.processes(first, marker), "the job lives on", PATIENCE_S)


def test_a_node_that_vanishes_takes_its_job_along_and_serves_again_when_it_returns(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    job, (node,), marker = running(cluster, jobs)
    cluster.node_vanishes(node)
    assert cluster.processes(node, marker) == ()
    cluster.node_returns(node)
    # Whether Slurm has noticed that the job is gone is another matter.
    jobs.cancel(job)
    wait_until(lambda: cluster.node_states()[node] == "idle", lambda: f"{cluster.node_states()}", PATIENCE_S)
    another = jobs.submit("exit 0", nodelist=node)
    assert jobs.wait_end(another) == "COMPLETED"


def test_the_controller_forgets_no_job_when_it_is_started_again(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    job, (node,), marker = running(cluster, jobs)
    cluster.stop_controller()
    assert cluster.node_states() == {}
    assert cluster.processes(node, marker) != ()
    cluster.start_controller()
    assert jobs.state(job) == "RUNNING"
    assert jobs.show(job)["Restarts"] == "0"


def test_a_small_disk_is_the_same_everywhere_and_can_be_full(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    try:
        disk = cluster_under_test.small_disk()
    except Impossible as impossible:
        pytest.skip(str(impossible))
    assert list(disk.path.iterdir()) == []
    disk.fill()
    write = f"head -c 100000 /dev/zero > {disk.path}/of-$SLURMD_NODENAME"
    refused = jobs.submit(["srun", "sh", "-c", write], nodes=2, ntasks_per_node=1)
    assert jobs.wait_end(refused) == "FAILED"
    jobs.wait_output(refused, "No space left on device")
    disk.free()
    taken = jobs.submit(["srun", "sh", "-c", write], nodes=2, ntasks_per_node=1)
    assert jobs.wait_end(taken) == "COMPLETED", jobs.output(taken)
    assert len(list(disk.path.glob("of-*"))) == 2


def test_the_sites_plugstack_lines_count_at_once_and_can_be_taken_back(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    former = cluster.plugstack(["required /no/such/plugin.so"])
    try:
        answer = jobs.cluster.run("srun", "true")
        assert answer.code != 0
        assert "/no/such/plugin.so" in answer.err
    finally:
        assert cluster.plugstack(former) == ("required /no/such/plugin.so",)
    assert jobs.cluster.run("srun", "true").code == 0


def test_a_node_without_a_network_runs_on_and_serves_again_when_it_is_mended(
    cluster_under_test: ClusterUnderTest, jobs: JobsOn
) -> None:
    cluster = cluster_under_test
    job, (node,), marker = running(cluster, jobs)
    if cluster.name == "embedded":
        with pytest.raises(Impossible, match="share its network"):
            cluster.cut_network(node)
        return
    cluster.cut_network(node)
    assert cluster.processes(node, marker) != ()
    cluster.mend_network(node)
    assert jobs.state(job) in ("RUNNING", "PENDING", "COMPLETING")
