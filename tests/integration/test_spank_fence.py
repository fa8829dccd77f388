"""A step of the past is not started any more."""

from __future__ import annotations

import pytest

from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import JobsOn

pytestmark = BOTH
FENCED = 79


@pytest.mark.quick
def test_an_older_life_of_a_job_is_refused_and_a_newer_one_starts(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = "mkdir -p run/exit-notes/$SLURM_JOB_ID-2; srun touch began; echo left with $?"
    script += "; SLURM_RESTART_COUNT=2 srun touch newer"
    job = jobs.submit(script, nodes=2, ntasks_per_node=2, resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    output = jobs.output(job)
    sentence = f"job {job} with restart count 0 must not start any more: restart 2 of it has begun in {run}"
    assert f"left with {FENCED}" in output
    assert output.count(sentence) == 2, output  # once a node
    assert not (jobs.folder / "began").exists()
    assert (jobs.folder / "newer").exists()


def test_an_older_attempt_is_refused_and_the_newest_one_starts(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    step = "SLURM_RESILIENCE_ATTEMPT=$n srun touch began-$n"
    script = f"mkdir -p run/attempts/0003; for n in 2 3 4; do {step}; echo $n: $?; done"
    job = jobs.submit(script, resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    output = jobs.output(job)
    assert f"attempt 2 must not start any more: attempt 3 has begun in {run}" in output
    assert f"2: {FENCED}\n3: 0\n4: 0\n" in "".join(line + "\n" for line in output.splitlines() if line[1:2] == ":")
    assert sorted(path.name for path in jobs.folder.glob("began-*")) == ["began-3", "began-4"]


def test_a_job_whose_first_step_is_refused_fails(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    job = jobs.submit(
        "mkdir -p run/attempts/0003; exec srun touch began", resilient_run=run, env={"SLURM_RESILIENCE_ATTEMPT": "1"}
    )
    assert jobs.wait_end(job) == "FAILED", jobs.output(job)
    assert not (jobs.folder / "began").exists()


def test_a_run_directory_that_cannot_be_read_stops_nobody(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = (
        "mkdir -p run/exit-notes/$SLURM_JOB_ID-9; chmod 0 run/exit-notes; srun touch began; chmod 755 run/exit-notes"
    )
    job = jobs.submit(script, resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert (jobs.folder / "began").exists()
    assert f"nobody can tell whether {run} has a newer attempt: Permission denied" in jobs.output(job)
