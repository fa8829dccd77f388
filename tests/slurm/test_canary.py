"""A canary on a real Slurm, a batch job before the long one: the example passes, one that can't resume doesn't."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from slurm_resilience.rehearsal.training_job import example, missing_packages
from tests.slurm.foreign import ROOT
from tests.slurm.jobs import Jobs

pytestmark = [
    pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True),
    pytest.mark.skipif(missing_packages() != [], reason="the example's packages are not installed"),
]
PATIENCE_S = 380.0

FORGETS = """
import os, sys
from slurm_resilience import training

honest = training.open_run

def open_run(*args, **named):
    if int(os.environ["SLURM_RESILIENCE_ATTEMPT"]) > 1:
        raise KeyError("optimizer.momentum is not in this checkpoint")
    return honest(*args, **named)

training.open_run = open_run
"""
"""As `sitecustomize` of the ranks: a training that was changed so that it can't load what it saves."""


def submit(jobs: Jobs, name: str, nodes: int, **environment: str) -> str:
    words = [sys.executable, "-m", "slurm_resilience.cli.main", "canary", f"--run-dir={jobs.folder / name}"]
    words += ["--steps=2", "--json", "--nproc-per-node=1", sys.executable, str(example("digits.py"))]
    words += ["--epochs=500", "--step-seconds=0.1", "--save-every-steps=10000"]
    return jobs.submit(
        f"exec {shlex.join(words)} 2>{jobs.folder / name}.err",
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        nodes=nodes,
        ntasks_per_node=1,
        cpus_per_task=8,
        job_name=name,
        output=str(jobs.folder / f"{name}-%A.out"),
    )


def told(jobs: Jobs, job: str, name: str) -> dict[str, Any]:
    """What the canary has printed, once its job is over."""
    jobs.wait_end(job, timeout_s=PATIENCE_S)
    try:
        value = json.loads(jobs.output(job))
    except ValueError:
        raise AssertionError(jobs.output(job) + (jobs.folder / f"{name}.err").read_text()) from None
    assert isinstance(value, dict)
    return value


def test_the_example_passes_and_one_that_cannot_resume_does_not(jobs: Jobs) -> None:
    site = jobs.folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(FORGETS)
    good = submit(jobs, "good", 2)
    bad = submit(jobs, "bad", 1, PYTHONPATH=f"{site}:{ROOT}")
    long_job = jobs.submit("true", dependency=f"afterok:{bad}", kill_on_invalid_dep="yes", job_name="long")

    failed = told(jobs, bad, "bad")
    assert failed["exit_code"] == 2, failed
    assert failed["stages"][-1]["stage"] == "resume", failed
    assert "optimizer.momentum is not in this checkpoint" in failed["sentence"]
    assert (jobs.folder / "bad.canary" / f"{bad}-0" / "one-node" / "manifest.jsonl").exists()

    passed = told(jobs, good, "good")
    assert passed["exit_code"] == 0, passed
    assert [stage["part"] for stage in passed["stages"]] == ["one node"] * 8 + ["all nodes"] * 8
    assert {stage["outcome"] for stage in passed["stages"]} == {"passed"}
    assert not (jobs.folder / "good.canary").exists()
    assert jobs.wait_end(long_job, timeout_s=PATIENCE_S) == "CANCELLED"
