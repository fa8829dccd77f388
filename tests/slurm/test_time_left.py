"""The end of a job's time as Slurm moves it while the job runs, without any --signal, before a program that knows
nothing of us: it is sent SIGTERM when it is to stop, and notes that.

Slurm counts limits in whole minutes (`scontrol update TimeLimit=0:40` is a minute): so each of these takes about one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.launch.plan import read_plan
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.slurm.command_line import CommandLineSlurm
from tests.slurm.foreign import LISTENER, PATIENT_LISTENER, Foreign
from tests.slurm.jobs import Jobs, wait_until

linuxproc = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
STARTED, HEARD = "started-0-0", "heard-0-0"
STOPPED_S = 150.0


@pytest.fixture
def foreign(jobs: Jobs) -> Foreign:
    return Foreign(jobs)


def limit(foreign: Foreign, job: str, minutes: str) -> None:
    foreign.jobs.ask("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")


def end_known_to_slurm(foreign: Foreign, job: str) -> float:
    record = CommandLineSlurm(environment=foreign.jobs.cluster.environment()).job(JobRef(job))
    assert record is not None
    assert record.end_s is not None
    return record.end_s


def wait_planned(*runs: RunDirectory) -> None:
    """Until the end of the time is known as it was; the tasks may take a while to begin, and the clock runs."""
    wait_until(lambda: all(run.plan(1).exists() for run in runs), f"not all have a plan: {runs}", STOPPED_S)


def wait_told(foreign: Foreign, run: RunDirectory, end_s: float) -> None:
    """Until the agents can read that the time ends then."""

    def told() -> bool:
        path = run.end_of_time(1)
        return path.exists() and abs(json.loads(path.read_bytes())["end_s"] - end_s) < 5

    wait_until(told, lambda: f"the end was never told; {foreign.run.path}", STOPPED_S)


@linuxproc
def test_a_limit_that_is_raised_is_noticed_before_the_ranks_are_asked_to_stop(foreign: Foreign) -> None:
    # The stop would begin after 50 s: Slurm is asked 20 s before.
    job = foreign.submit("--plain", "--stop-before-end=10", *foreign.program(LISTENER), time="1", requeue=True)
    wait_planned(foreign.run)
    limit(foreign, job, "10")
    foreign.wait_noted(STARTED)
    wait_told(foreign, foreign.run, end_known_to_slurm(foreign, job))
    said = foreign.jobs.wait_output(job, "the end of the job's time has moved")
    assert "the job's time limit was changed" in said
    assert not (foreign.folder / HEARD).exists()


@linuxproc
def test_a_limit_that_is_lowered_stops_the_ranks_in_time(foreign: Foreign) -> None:
    # The stop would begin after 80 s, so Slurm is asked after 40 s: what is left then is less than the lead.
    job = foreign.submit("--plain", "--stop-before-end=520", *foreign.program(LISTENER), time="10", requeue=True)
    wait_planned(foreign.run)
    limit(foreign, job, "2")
    foreign.wait_noted(STARTED)
    wait_until((foreign.folder / HEARD).exists, lambda: foreign.jobs.output(job)[-2000:], STOPPED_S)
    foreign.jobs.wait_restarts(job, 1)
    assert foreign.causes[0] is Cause.TIME_LIMIT
    assert foreign.noted(HEARD) == "SIGTERM"
    found = re.search(r"the job's time is over in (\d+) s", foreign.jobs.output(job))
    assert found is not None
    assert int(found[1]) <= 120


@linuxproc
def test_each_element_of_an_array_has_its_own_end(foreign: Foreign) -> None:
    words = foreign.words("--plain", "--stop-before-end=10", *foreign.program(LISTENER), run_dir=False)
    script = f"exec {words[0]} {' '.join(words[1:3])} --run-dir={foreign.run.path}/$SLURM_ARRAY_TASK_ID "
    script += " ".join(words[3:])
    job = foreign.jobs.submit(
        script, env=foreign.environment, marker=foreign.marker, array="0-1", time="1", requeue=True
    )
    runs = [RunDirectory(foreign.run.path / str(task)) for task in (0, 1)]
    wait_planned(*runs)
    for task, run in enumerate(runs):
        assert read_plan(run.plan(1)).end_s == end_known_to_slurm(foreign, f"{job}_{task}")
    limit(foreign, f"{job}_1", "20")
    wait_told(foreign, runs[1], end_known_to_slurm(foreign, f"{job}_1"))
    assert not runs[0].end_of_time(1).exists()


@linuxproc
def test_a_grace_period_is_not_taken_for_a_new_limit(foreign: Foreign) -> None:
    job = foreign.submit("--plain", *foreign.program(LISTENER), time="10", requeue=True)
    foreign.wait_noted(STARTED)
    foreign.jobs.preempt(job)
    foreign.jobs.wait_restarts(job, 1)
    assert foreign.causes[0] is Cause.PREEMPTED
    assert not foreign.run.end_of_time(1).exists()


@pytest.fixture
def user_signal_first() -> Iterator[Cluster]:
    """A cluster that announces a preemption by the job's own --signal (22.05: not yet among PreemptParameters)."""
    with Cluster(ClusterSpec(nodes=2, extra=("SlurmctldParameters=preempt_send_user_signal",))) as up:
        yield up


def test_a_warning_that_is_a_preemptions_gets_no_more_time_than_its_grace(
    user_signal_first: Cluster, tmp_path: Path
) -> None:
    foreign = Foreign(Jobs(user_signal_first, tmp_path))
    job = foreign.submit("--plain", *foreign.program(PATIENT_LISTENER), time="60", signal="USR1@60", requeue=True)
    foreign.wait_noted(STARTED)
    foreign.jobs.preempt(job)
    foreign.jobs.wait_output(job, "the deadline came nearer")
    (foreign.folder / "leave").touch()
    foreign.jobs.wait_restarts(job, 1)
    assert foreign.noted(HEARD).split()[0] == "SIGUSR1"
    assert foreign.causes[0] is Cause.PREEMPTED
