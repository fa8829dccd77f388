"""The sandbox itself, with real daemons: whatever happens to it, nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox import cgroup, ports
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from slurm_resilience.sandbox.daemons import MARKER, DaemonFailed
from slurm_resilience.sandbox.process import processes_with
from tests.slurm.jobs import PATIENCE_S, Jobs, leftovers, wait_until

ROOT = Path(__file__).parent.parent.parent
SMALL = ClusterSpec(nodes=1)
ESCAPING = "(setsid sleep 300 &) ; setsid sleep 301 & env -i $(which sleep) {unmarked} & srun sleep 302"
"""Leaves processes behind that belong to no session of the job any more, and one without its environment."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not there yet; its name is short, as sockets want it, which tmp_path is not."""
    above = Path(tempfile.mkdtemp(prefix="sb-"))
    yield above / "c"
    above.rmdir()  # fails if anything was left behind


def of_cluster(folder: Path) -> list[int]:
    """Every process that names this folder, daemons and jobs."""
    conf = str(folder / "slurm.conf")
    found = processes_with(lambda _, env: env.get(MARKER) == str(folder) or env.get("SLURM_CONF") == conf)
    return [process.pid for process in found]


def cgroups_of(nodes: tuple[str, ...]) -> list[Path]:
    return [top for node in nodes for top in cgroup.folders_of(node)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def gone(folder: Path) -> bool:
    return not folder.exists() and not of_cluster(folder)


def test_a_job_runs_on_every_node(cluster: Cluster, jobs: Jobs) -> None:
    job = jobs.submit("srun sh -c 'echo on $SLURMD_NODENAME'", nodes=4, ntasks_per_node=1)
    assert jobs.wait_end(job) == "COMPLETED"
    assert sorted(jobs.output(job).split()) == sorted(["on", *cluster.node_names] + ["on"] * 3)


def test_a_preempted_job_is_requeued_and_runs_again(jobs: Jobs) -> None:
    job = jobs.submit('echo run ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 300', requeue=True)
    jobs.wait_output(job, "run 0")
    preemptor = jobs.preempt(job)
    # GraceTime is 15, and the controller looks every 30 s
    assert jobs.wait_end(preemptor) == "COMPLETED"
    jobs.wait_output(job, "run 1")


def test_only_cgroup_keeps_a_signal_from_the_children_of_a_task(cluster: Cluster, jobs: Jobs) -> None:
    task = jobs.folder / "task.sh"
    task.write_text(
        "trap 'echo leader' USR1\n"
        "bash -c 'trap \"echo child\" USR1; echo ready; while :; do sleep 0.1; done' &\n"
        "while :; do wait; done\n"
    )
    job = jobs.submit(f"srun bash {task}")
    jobs.wait_output(job, "ready")
    jobs.ask("scancel", "-s", "USR1", job)
    jobs.wait_output(job, "leader")
    if cluster.spec.proctrack == "linuxproc":
        jobs.wait_output(job, "child")
    else:
        time.sleep(1)
        assert "child" not in jobs.output(job)


def test_a_job_outlives_the_slurmd_of_its_node(cluster: Cluster, jobs: Jobs) -> None:
    job = jobs.submit("echo here; until [ -e go ]; do sleep 0.1; done; echo still", nodelist=cluster.node_names[2])
    jobs.wait_output(job, "here")
    cluster.kill_slurmd(cluster.node_names[2])
    (jobs.folder / "go").touch()
    jobs.wait_output(job, "still")
    cluster.start_slurmd(cluster.node_names[2])
    assert jobs.wait_end(job) == "COMPLETED"


def test_the_controller_remembers_its_jobs_over_a_restart(cluster: Cluster, jobs: Jobs) -> None:
    job = jobs.submit("sleep 300")
    jobs.wait_state(job, "RUNNING")
    cluster.stop_controller()
    assert not cluster.status().nodes
    cluster.start_controller()
    assert jobs.state(job) == "RUNNING"


@pytest.mark.parametrize("proctrack", ["linuxproc", "cgroup"])
def test_down_leaves_no_process_no_file_and_no_cgroup(tmp_path: Path, proctrack: str) -> None:
    if proctrack == "cgroup" and isinstance(answer := cgroup.probe(), cgroup.Unusable):
        pytest.skip(answer.why)
    with Cluster(ClusterSpec(nodes=2, proctrack="cgroup" if proctrack == "cgroup" else "linuxproc")) as cluster:
        folder, nodes = cluster.folder, cluster.node_names
        jobs = Jobs(cluster, tmp_path)
        marker = f"down-{proctrack}-{os.getpid()}"
        unmarked = f"303.{os.getpid()}{len(proctrack)}"  # no other test's
        job = jobs.submit(ESCAPING.format(unmarked=unmarked), marker=marker)
        wait_until(lambda: len(leftovers(marker)) >= 4, "the job has its processes", PATIENCE_S)
        assert bool(cgroups_of(nodes)) == (proctrack == "cgroup")
        jobs.wait_state(job, "RUNNING")
    assert gone(folder)
    assert not leftovers(marker)
    assert not cgroups_of(nodes)
    assert not [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if unmarked.encode() in read(entry)]


def test_down_also_ends_a_suspended_job(tmp_path: Path) -> None:
    if isinstance(answer := cgroup.probe(), cgroup.Unusable):
        pytest.skip(answer.why)
    with Cluster(ClusterSpec(nodes=1, proctrack="cgroup")) as cluster:
        nodes = cluster.node_names
        jobs = Jobs(cluster, tmp_path)
        job = jobs.submit("sleep 300", marker=f"frozen-{os.getpid()}")
        jobs.wait_state(job, "RUNNING")
        jobs.ask("scontrol", "suspend", job)
    assert not leftovers(f"frozen-{os.getpid()}")
    assert not cgroups_of(nodes)


@pytest.mark.parametrize("dead", ["munged", "slurmctld", "slurmd", "all"])
def test_down_works_on_a_half_dead_cluster(place: Path, dead: str) -> None:
    cluster = Cluster(SMALL, folder=place)
    cluster.up(outlive_me=True)
    for daemon in cluster.daemons.names():
        if dead == "all" or daemon.startswith(dead):
            cluster.daemons.end(daemon, signal.SIGKILL)
    assert not cluster.status().healthy
    Cluster.attach(place).down()
    assert gone(place)


def test_a_cluster_ends_itself_when_its_owner_is_killed(place: Path) -> None:
    folder = place
    script = (
        "import sys, time; from pathlib import Path; from slurm_resilience.sandbox.cluster import Cluster\n"
        "from slurm_resilience.sandbox.config import ClusterSpec\n"
        "with Cluster(ClusterSpec(nodes=1), folder=Path(sys.argv[1])) as c:\n"
        "    c.run('sbatch', '-o', '/dev/null', '--wrap', 'sleep 300')\n"
        "    print('up', flush=True); time.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert len(of_cluster(folder)) >= 4
        owner.kill()
    wait_until(lambda: gone(folder), "the cluster is gone", PATIENCE_S)


def test_a_cluster_from_the_command_line_stays_until_down(place: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = "from slurm_resilience.cli.sandbox import sandbox; sandbox()"
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
            timeout=PATIENCE_S,
            env={**os.environ, "TMPDIR": str(place.parent)},
        )

    up = call("up", "--nodes", "1")
    assert up.returncode == 0, up.stderr
    assert "export SLURM_CONF=" in up.stdout
    assert call("status").returncode == 0
    (folder,) = place.parent.iterdir()
    assert call("down").returncode == 0
    assert gone(folder)
    assert "there is no sandbox" in call("status").stderr


def test_run_leaves_with_the_exit_code_of_the_command(place: Path) -> None:
    program = "from slurm_resilience.cli.sandbox import sandbox; sandbox()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--nodes", "1", "--", "sh", "-c", "srun -N1 hostname && exit 4"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "TMPDIR": str(place.parent)},
    )
    assert done.returncode == 4, done.stderr
    assert not list(place.parent.iterdir())


def test_two_clusters_at_once_do_not_meet(tmp_path: Path) -> None:
    with Cluster(SMALL) as one, Cluster(SMALL) as other:
        job = Jobs(one, tmp_path).submit("sleep 300")
        assert Jobs(one, tmp_path).wait_state(job, "RUNNING")
        assert Jobs(other, tmp_path).state(job) == ""
        assert not set(one.node_names) & set(other.node_names)
        other.down()
        assert Jobs(one, tmp_path).state(job) == "RUNNING"


def test_a_person_whose_shell_points_at_the_cluster_survives_its_end() -> None:
    with Cluster(SMALL) as cluster:
        shell = subprocess.Popen(["sleep", "300"], env={**cluster.environment(), "SLURM_JOB_ID": "1"})
    try:
        assert shell.poll() is None
    finally:
        shell.kill()
        shell.wait()


def test_a_port_that_was_taken_in_between_is_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        first = (taken.getsockname()[1], *ports.free_ports(1))
        offers = [first]
        monkeypatch.setattr(
            "slurm_resilience.sandbox.site.free_ports", lambda n: offers.pop() if offers else ports.free_ports(n)
        )
        with Cluster(SMALL) as cluster:
            assert cluster.site.controller_port != first[0]


def test_a_daemon_that_does_not_start_is_named_with_its_last_words() -> None:
    spec = ClusterSpec(nodes=1, extra=("SelectType=select/nonsense",))
    with pytest.raises(DaemonFailed, match=r"^slurm\S+ of the sandbox does not run; .*select/nonsense"):
        Cluster(spec).up()


def test_a_folder_in_use_is_refused(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="exists already"):
        Cluster(SMALL, folder=place.parent).up()


def test_the_folder_is_kept_when_asked_for(place: Path) -> None:
    with Cluster(SMALL, folder=place, keep=True):
        pass
    assert (place / "log" / "slurmctld.log").exists()
    assert not of_cluster(place)
    shutil.rmtree(place)
