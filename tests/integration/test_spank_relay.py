"""Slurm's signals on their way to the ranks of a bare srun, and that nothing is left of the relay."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spank_build import KILL_WAIT_S
from tests.integration.spank_site import ALL_THREE, RANK, SpankSite
from tests.integration.spank_site import cgroup_cluster as cgroup_cluster  # noqa: PLC0414 found by their names
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import ENDED, PATIENCE_S, JobsOn, wait_until

pytestmark = ALL_THREE
ROOT = Path(__file__).parents[2]


def start(site: SpankSite, jobs: JobsOn, *, name: str = "", deaf: bool = False, **options: object) -> str:
    """A job of two tasks on each of two nodes, which all have begun; its id. `name`: where a test has several."""
    cluster = site.cluster
    program = cluster.repository / RANK.relative_to(ROOT)
    script = f"exec srun --quiet {cluster.python} {program} {jobs.folder}" + (" deaf" if deaf else "")
    given: dict[str, object] = {"nodes": 2, "ntasks_per_node": 2, "resilient": True, "time": 5, "requeue": False}
    job = jobs.submit(script, env=cluster.environment, marker=jobs.folder.name + name, **given | options)
    tasks = int(str((given | options)["nodes"])) * 2
    wait_until(
        lambda: len(list(jobs.folder.glob(f"{job}.*.json"))) == tasks,
        lambda: f"the tasks of {job} do not begin: {jobs.state(job)} {jobs.output(job)}",
        PATIENCE_S,
    )
    return job


def heard(jobs: JobsOn, job: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(jobs.folder.glob(f"{job}.*.json"))]


def nodes_of(jobs: JobsOn, job: str) -> list[str]:
    return sorted({each["node"] for each in heard(jobs, job)})


def check_asked(site: SpankSite, jobs: JobsOn, job: str, reason: str, sent: str, *, name: str = "") -> list[float]:
    """Every rank was asked for this reason, no child heard anything, and all is gone; how long they were given."""
    wait_until(
        lambda: jobs.state(job) in ENDED, lambda: f"{jobs.state(job)} {heard(jobs, job)} {jobs.output(job)}", PATIENCE_S
    )
    told = heard(jobs, job)
    assert [each.get("reason") for each in told] == [reason] * len(told), jobs.output(job)
    assert all(each["because"].startswith(f"{sent} came to ") for each in told), told
    assert list(jobs.folder.glob(f"{job}.*.heard")) == []
    site.wait_gone(*nodes_of(jobs, job), job=job)
    for node in nodes_of(jobs, job):
        wait_until(
            lambda node=node: site.cluster.processes(node, jobs.folder.name + name) == (),  # type: ignore[misc]
            "somebody lives on",
            PATIENCE_S,
        )
    return [each["seconds"] for each in told]


@pytest.mark.quick
def test_a_warning_sent_by_hand_asks_every_rank_to_stop_and_their_children_hear_nothing(
    site: SpankSite, jobs: JobsOn
) -> None:
    job = start(site, jobs)
    assert all(site.look(node).relays for node in nodes_of(jobs, job))
    jobs.ask("scancel", "-s", "USR1", job)
    left = check_asked(site, jobs, job, "WARNING", "SIGUSR1")
    assert jobs.state(job) == "COMPLETED", jobs.output(job)
    # No deadline, or the end of the job's time where it is known already.
    assert all(seconds > 60 for seconds in left), left


@pytest.mark.quick
def test_a_preemption_asks_every_rank_to_stop_within_kill_wait(site: SpankSite, jobs: JobsOn) -> None:
    job = start(site, jobs, requeue=True)
    jobs.preempt(job)
    wait_until(
        lambda: all("reason" in each for each in heard(jobs, job)),
        lambda: f"{jobs.state(job)} {heard(jobs, job)} {jobs.output(job)}",
        PATIENCE_S,
    )
    told = heard(jobs, job)
    assert {each["reason"] for each in told} == {"TERMINATION"}
    assert all(each["because"].startswith("SIGTERM came to ") for each in told)
    assert all(0 < each["seconds"] <= KILL_WAIT_S - 2 for each in told)
    assert list(jobs.folder.glob(f"{job}.*.heard")) == []


def test_the_warning_of_sbatch_comes_and_a_longer_time_is_known(site: SpankSite, jobs: JobsOn) -> None:
    """Slurm looks at limits every 30 s, and the relay asks for them every 60 s: both are waited for at once."""
    job = start(site, jobs, signal="USR1@60", time=1, nodes=1)
    other = start(site, jobs, name="-other", time=5, nodes=1)
    [end_file, *_] = {Path(each["relay"]) / "end" for each in heard(jobs, other)}
    node = nodes_of(jobs, other)[0]

    def end_s() -> float:
        answer = site.on_node(node, "cat", str(end_file))
        return float(json.loads(answer.out)["end_s"]) if answer.code == 0 else 0.0

    wait_until(lambda: abs(end_s() - time.time() - 300) < 150, lambda: f"{end_s()} at {time.time()}", PATIENCE_S)
    site.cluster.run("scontrol", "update", f"JobId={other}", "TimeLimit=20")
    check_asked(site, jobs, job, "WARNING", "SIGUSR1")
    wait_until(lambda: abs(end_s() - time.time() - 1200) < 150, lambda: f"{end_s()} at {time.time()}", PATIENCE_S)
    jobs.cancel(other)
    check_asked(site, jobs, other, "TERMINATION", "SIGTERM", name="-other")


def test_nothing_is_left_when_the_job_is_killed_at_once(site: SpankSite, jobs: JobsOn) -> None:
    job = start(site, jobs, deaf=True)
    nodes = nodes_of(jobs, job)
    jobs.ask("scancel", "-s", "KILL", job)
    jobs.wait_end(job)
    site.wait_gone(*nodes)


@pytest.mark.parametrize("victim", ["relay", "slurmstepd"])
def test_nothing_is_left_after_the_sudden_death_of(site: SpankSite, jobs: JobsOn, victim: str) -> None:
    job = start(site, jobs, nodes=1, deaf=victim == "slurmstepd")
    [node] = nodes_of(jobs, job)
    [relay] = site.look(node).relays
    if victim == "relay":
        site.on_node(node, "kill", "-9", str(relay))
        wait_until(lambda: site.look(node).relays == {}, "the relay lives", PATIENCE_S)
        jobs.cancel(job)  # the ranks have nobody to tell them, and end by SIGKILL
        wait_until(lambda: jobs.state(job) in ENDED, lambda: f"{jobs.state(job)} {jobs.output(job)}", PATIENCE_S)
    else:
        stepd = site.on_node(node, "ps", "-o", "ppid=", "-p", str(relay)).out.strip()
        assert "slurmstepd" in site.on_node(node, "ps", "-o", "args=", "-p", stepd).out
        site.on_node(node, "kill", "-9", stepd)
    site.wait_gone(node, job=job)
    site.cluster.kill(node, jobs.folder.name, signal.SIGKILL)  # Slurm knows nothing of the tasks any more
