"""The health gate on a real slurmd."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.manifest.run_directory import RunDirectory
from tests.clusters.running import Running
from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until

pytestmark = BOTH
ONCE = "#!/bin/sh\nmkdir {mark} 2>/dev/null || exit 0\necho 'the fan stands still'\nexit 1\n"
"""Finds something on whichever node asks first, and never again: the embedded cluster is one machine."""


@contextlib.contextmanager
def gate(site: SpankSite, mode: str, check: str) -> Iterator[None]:
    """With one check, which only root may change."""
    folder = site.builds.folder / "health.d"
    folder.mkdir(mode=0o755)
    (folder / "fan").write_text(check)
    (folder / "fan").chmod(0o755)
    try:
        with site.lines(site.builds.line(f"health={mode}", f"health_dir={folder}")):
            yield
    finally:
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def root_runs_the_tests(site: SpankSite) -> None:
    if site.builds.folder.stat().st_uid != 0:
        pytest.skip("a check must be root's, and the tests aren't run by root")


def found(run: Path, job: str) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in RunDirectory(run).exit_notes(job, 0).glob("*.health.json")]


def test_warn_tells_what_was_found_and_lets_the_job_run(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    with gate(site, "warn", "#!/bin/sh\necho 'the fan stands still'\nexit 1\n"):
        job = jobs.submit("srun touch began", resilient=True, resilient_run=run)
        silent = jobs.submit("srun touch silent")
        assert (jobs.wait_end(job), jobs.wait_end(silent)) == ("COMPLETED", "COMPLETED")
    node = jobs.show(job)["NodeList"]
    sentence = f"slurm-resilience: node {node}: fan: the fan stands still"
    assert sentence in jobs.output(job)
    assert jobs.output(silent) == ""
    assert (jobs.folder / "began").exists()
    assert found(run, job) == [{"node": node, "mode": "warn", "findings": ["fan: the fan stands still"]}]
    wait_until(lambda: not site.look(node).spooled(job), lambda: f"{site.look(node)}", PATIENCE_S)


def test_exclude_fails_the_step_before_its_program_begins(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    with gate(site, "exclude", "#!/bin/sh\necho 'the fan stands still'\nexit 1\n"):
        job = jobs.submit("exec srun touch began", resilient=True, resilient_run=run, requeue=False)
        other = jobs.submit("exec srun touch other")
        assert (jobs.wait_end(job), jobs.wait_end(other)) == ("FAILED", "COMPLETED"), jobs.output(job)
    assert not (jobs.folder / "began").exists()
    assert "is not fit for this job: no task starts here" in jobs.output(job)
    assert [each["mode"] for each in found(run, job)] == ["exclude"]


def test_a_check_that_hangs_costs_its_time_and_no_node(site: SpankSite, jobs: JobsOn) -> None:
    with gate(site, "warn health_timeout=2", "#!/bin/sh\nsleep 600\n"):
        job = jobs.submit("srun true", resilient=True)
        assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert "fan: did not answer within 2 s" in jobs.output(job)


def test_srun_resilient_requeues_without_the_node_that_is_excluded(site: SpankSite, jobs: JobsOn) -> None:
    mark = site.builds.folder / "fan-was-found"
    if site.cluster.name == "docker":
        mark = site.cluster.shared / "fan-was-found"
    with gate(site, "exclude", ONCE.format(mark=mark)):
        running = Running.light(site.cluster, jobs, step_s=0.02)
        running.wait_finished()
    [first, *_] = [path.stem.partition(".")[0] for path in (running.run.path / "exit-notes").glob("*/*.health.json")]
    assert first not in jobs.ask("scontrol", "show", "hostnames", jobs.show(running.job)["NodeList"]).out.split()
    assert first in jobs.show(running.job)["ExcNodeList"]
    assert len(running.attempts) == 2, running.story()
    running.check_light()
