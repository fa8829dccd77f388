"""The contract of SlurmClient, kept by Slurm's commands against a real controller."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from slurm_resilience.slurm.client import JobRef, JobState
from tests.contract.slurm_client_contract import PROMISES
from tests.contract.slurm_scene import HOSTILE_NAME, SlurmScene
from tests.slurm.jobs import Jobs
from tests.slurm.real_scene import RealScene

pytestmark = pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)  # it only answers questions here

OF_THIS_JOB = re.compile(r"Id$|Time$|^(NodeList|BatchHost|LastSchedEval|Scheduler|Priority|Std(Out|Err))$")
"""Fields of `scontrol show job` in which two jobs differ that asked for the same."""


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_commands_of_a_real_slurm_keep(promise: Callable[[SlurmScene], None], jobs: Jobs) -> None:
    promise(RealScene.of(jobs))


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-N2-3", "-n4", "-c2", "--mem=1G", "-t1:00:00", "--time-min=30:00", "-plow,high", "--no-requeue", "--nice=5"),
        ("--exclusive", "--ntasks-per-node=2", "-N2", "--mem-per-cpu=100", "--hint=nomultithread", "--contiguous"),
        ("-N2", "--exclusive=user", "--mail-type=END,FAIL", "--mail-user=me x", "--mincpus=3"),
        ("-n8", "--account=a", "--wckey=w", "--comment=two\n  lines ünï", "-J", f"{HOSTILE_NAME}\n   MinMemoryCPU=1"),
        ("--array=7", "-o/tmp/%x-%A_%a.txt", "-e/tmp/%j.err", "-i/dev/zero", "--switches=1@1", "-N2"),
    ],
    ids=lambda options: " ".join(options)[:40],
)
@pytest.mark.parametrize("head", ["", "#SBATCH --nodes=1-4 --signal=B:USR1@60\n"], ids=["bare", "own-lines"])
def test_a_job_that_is_asked_for_again_is_the_same_to_slurm(options: tuple[str, ...], head: str, jobs: Jobs) -> None:
    scene = RealScene.of(jobs)
    script = f"#!/bin/bash\n{head}sleep 60\n"
    arrays = tuple(option for option in options if option.startswith("--array="))
    excluded = f"--exclude={scene.node_names[-1]}"
    plain = scene.submission(*options, excluded, script=script)
    job = scene.client.submit(plain)
    wanted = _when_it_runs(scene, job)
    again = scene.client.asked_for(job)
    scene.client.cancel(job)
    scene.over(job)  # who asks for two or three nodes gets what is free
    second = scene.client.submit(type(plain)(script, (*again, *arrays), plain.environment))
    got = _when_it_runs(scene, second)
    differing = {name: (wanted.get(name), got.get(name)) for name in wanted | got if wanted.get(name) != got.get(name)}
    assert {name: pair for name, pair in differing.items() if OF_THIS_JOB.search(name) is None} == {}
    assert scene.client.asked_for(second) == again


def _when_it_runs(scene: RealScene, job: JobRef) -> dict[str, str]:
    scene.started(job)
    record = scene.client.job(job)
    assert record is not None
    assert record.state is JobState.RUNNING
    return scene.jobs.show(job)
