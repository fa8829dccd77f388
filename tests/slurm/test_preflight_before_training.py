"""`srun-resilient --preflight` on a real Slurm: a node that is made to look sick, and a mistake of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.manifest.preflight_verdict import Then, read_verdict
from slurm_resilience.manifest.records import Cause
from slurm_resilience.preflight.report import read_report
from tests.slurm.foreign import PATIENCE_S, ROOT, Foreign
from tests.slurm.jobs import Jobs, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)

NOTES_ITS_NODE = """
import os, sys
from pathlib import Path
(Path(sys.argv[1]) / f"ran-{os.environ['SLURM_RESILIENCE_ATTEMPT']}-{os.environ['SLURMD_NODENAME']}").touch()
"""
TWO_MINUTES_AHEAD = """
import os, time
if os.environ.get("SLURMD_NODENAME") == "{node}":
    honest, honest_ns = time.time, time.time_ns
    time.time = lambda: honest() + 120
    time.time_ns = lambda: honest_ns() + 120 * 10**9
"""
"""As `sitecustomize`: Python on that node has the wrong time, and all nodes are one host."""
SLOW_ONCE = """
import os, time
from pathlib import Path
if b"slurm_resilience.preflight.node" in Path("/proc/self/cmdline").read_bytes():
    time.sleep(0 if os.environ.get("SLURM_RESTART_COUNT") else 40)
"""
"""As `sitecustomize`: in the job's first life preflight's process on a node takes its time to begin."""
BRIEFLY = (
    "--preflight-skip=gpu,gpu-processes,kernel-log,load,swap,leftovers,power,firewall,versions,storage,storage-space,"
    "storage-speed,shared-storage,names,tcp,all-reduce"
)
"""What these tests don't want to find out."""


class Scene(Foreign):
    """A job on nodes that are named, of which one can be made sick."""

    def submit_on(self, nodes: int, *words: str, site: str | None = None, **sbatch: object) -> str:
        """`site`: what every Python of the job does when it starts."""
        words = ("--preflight", BRIEFLY, *words, "--plain", *self.program(NOTES_ITS_NODE))
        environment = self.environment
        if site is not None:
            folder = self.folder / "site"
            folder.mkdir()
            (folder / "sitecustomize.py").write_text(site)
            environment = environment | {"PYTHONPATH": f"{folder}:{ROOT}"}
        script = " ".join(["exec", *self.words(*words)])
        return self.jobs.submit(
            script,
            env=environment,
            marker=self.marker,
            job_name="foreign",
            nodes=nodes,
            ntasks_per_node=1,
            cpus_per_task=8,  # whole nodes: with an idle cluster, its first ones
            requeue=True,
            **sbatch,
        )

    def ran(self, attempt: int) -> set[str]:
        return {path.name.rpartition("-")[2] for path in self.folder.glob(f"ran-{attempt}-*")}


@pytest.fixture
def scene(jobs: Jobs) -> Scene:
    return Scene(jobs)


def finished(scene: Scene, job: str, jobs: Jobs) -> None:
    wait_until(
        lambda: scene.run.journal.exists() and scene.chain.finished,
        lambda: f"it never finished: {jobs.output(job)[-3000:]}",
        PATIENCE_S,
    )


def test_a_sick_node_is_left_out_and_the_job_goes_on_without_it(jobs: Jobs, scene: Scene) -> None:
    sick = jobs.cluster.node_names[1]
    job = scene.submit_on(3, site=TWO_MINUTES_AHEAD.format(node=sick))  # of two, nobody could tell whose clock is wrong
    finished(scene, job, jobs)
    first = scene.attempts[0]
    assert first.ended is not None
    assert (first.ended.cause, first.ended.exclude) == (Cause.NODE_FAILURE, (sick,)), jobs.output(job)
    assert scene.ran(1) == set()
    assert len(scene.ran(2)) == 3
    assert sick not in scene.ran(2)
    report = read_report(scene.run.preflight(job, 0))
    assert report is not None
    assert report.exclude == (sick,)
    assert report.clock_offsets_s[sick] == pytest.approx(120, abs=10)
    told = scene.ask("status", str(scene.run.path), "--attempt", "1")
    assert f"node {sick} is unhealthy: clock: " in told.out


def test_with_a_node_to_spare_the_job_does_not_even_stop(jobs: Jobs, scene: Scene) -> None:
    first, sick, third, _ = jobs.cluster.node_names
    job = scene.submit_on(3, "-N2", "-n2", site=TWO_MINUTES_AHEAD.format(node=sick))
    finished(scene, job, jobs)
    assert scene.ran(1) == {first, third}, jobs.output(job)
    verdict = read_verdict(scene.run, 1)
    assert verdict is not None
    assert verdict.then is Then.GO_ON_WITHOUT


def test_a_mistake_of_the_users_starts_nothing_and_is_told_with_what_helps(jobs: Jobs, scene: Scene) -> None:
    job = scene.submit_on(1, "--interface=nosuch0")
    scene.wait_exit(job, 77)
    [attempt] = scene.attempts
    assert attempt.ended is not None
    assert attempt.ended.cause is Cause.PREFLIGHT
    assert "nosuch0" in attempt.ended.because
    assert scene.ran(1) == set()
    assert jobs.show(job)["Restarts"] == "0"
    assert "what helps: " in jobs.output(job)
    told = scene.ask("status", str(scene.run.path))
    assert "refused by preflight" in told.out
    assert not Path(scene.run.lease).exists()


def test_a_preemption_during_preflight_is_one_and_leaves_nothing_behind(jobs: Jobs, scene: Scene) -> None:
    job = scene.submit_on(2, site=SLOW_ONCE, partition="low")
    jobs.wait_output(job, "preflight: looking at the 2 nodes", timeout_s=PATIENCE_S)
    jobs.preempt(job)
    finished(scene, job, jobs)
    assert scene.causes == [Cause.PREEMPTED, Cause.FINISHED], jobs.output(job)
    assert scene.ran(1) == set()
    assert len(scene.ran(2)) == 2
    scene.check_nothing_left()
