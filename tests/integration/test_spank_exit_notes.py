"""How every task ended, noted where it ended, brought to the run directory."""

from __future__ import annotations

import json
import pwd
import signal
from pathlib import Path

import pytest

from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.triage.exit_notes import ExitNote, read_exit_notes
from tests.clusters.cluster import Impossible
from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import PATIENCE_S, JobsOn, wait_until

pytestmark = BOTH
ENDS = "case $SLURM_PROCID in 0) exit 0;; 1) exit 5;; 2) kill -SEGV $$;; 3) kill -KILL $$;; esac"
STATUSES = {0: 0, 1: 5 << 8, 2: signal.SIGSEGV, 3: signal.SIGKILL}
WAIT = "while [ ! -e go ]; do sleep 0.1; done"


def read(run: Path, job: str, restart: int = 0) -> tuple[ExitNote, ...]:
    """As triage does, which must have nothing to complain of."""
    complaints: list[str] = []
    found = read_exit_notes(RunDirectory(run).exit_notes(job, restart), restart, complaints.append)
    assert complaints == []
    return found


@pytest.mark.quick
def test_they_say_of_every_rank_how_it_ended_after_each_step_and_after_the_job(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = f"ulimit -c 0; srun --kill-on-bad-exit=0 bash -c '{ENDS}'; touch ended; {WAIT}; srun true"
    job = jobs.submit(script, nodes=2, ntasks_per_node=2, resilient=True, resilient_run=run)
    wait_until((jobs.folder / "ended").exists, lambda: jobs.output(job), PATIENCE_S)
    first = read(run, job)
    assert {note.rank: note.status for note in first} == STATUSES
    nodes = jobs.ask("scontrol", "show", "hostnames", jobs.show(job)["NodeList"]).out.split()
    assert {note.rank: note.node for note in first} == dict(zip(range(4), [nodes[0]] * 2 + [nodes[1]] * 2, strict=True))
    assert {(note.job, note.restart, note.step) for note in first} == {(job, 0, 0)}
    assert len({note.pid for note in first}) == 4 or site.cluster.name == "docker"
    assert all(site.look(node).spooled(job) for node in nodes)

    (jobs.folder / "go").touch()
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    files = sorted(RunDirectory(run).exit_notes(job, 0).iterdir())
    assert [file.name for file in files if file.suffix == ".jsonl"] == [f"{node}.jsonl" for node in sorted(nodes)]
    owner = _uid(site)
    assert {file.stat().st_uid for file in [*files, *files[0].parents[:3]]} == {owner}
    notes = read(run, job)
    assert sorted((note.step, note.rank) for note in notes) == [(step, rank) for step in (0, 1) for rank in range(4)]
    wait_until(lambda: not any(site.look(node).spooled(job) for node in nodes), "the spool is not emptied", PATIENCE_S)


def _uid(site: SpankSite) -> int:
    user = site.cluster.ordinary_user
    if site.cluster.name == "embedded":
        return pwd.getpwnam(user).pw_uid
    return int(site.cluster.run("id", "-u", user).out)


def test_what_the_run_directory_does_not_take_stays_in_the_spool(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    run.mkdir(mode=0o755)  # whoever runs the tests owns it: the user may look and no more
    if run.stat().st_uid == _uid(site):
        pytest.skip("the tests run as the jobs' user")
    job = jobs.submit("srun bash -c 'exit 3'; exit 0", resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert f"{run}/exit-notes" in jobs.output(job)
    node = jobs.show(job)["NodeList"]
    spooled = site.look(node).spooled(job)
    [notes] = [text for name, text in spooled.items() if name.endswith(".jsonl")]
    assert json.loads(notes)["status"] == 3 << 8
    assert list(run.iterdir()) == []


def test_every_life_of_a_requeued_job_has_its_own(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = 'srun bash -c "exit ${SLURM_RESTART_COUNT:-0}"; touch ended; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    job = jobs.submit(script, resilient=True, resilient_run=run, requeue=True)
    wait_until((jobs.folder / "ended").exists, lambda: jobs.output(job), PATIENCE_S)
    assert jobs.requeue(job).code == 0
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert [note.status for note in read(run, job, 0)] == [0]
    assert [note.status for note in read(run, job, 1)] == [1 << 8]


def test_fifty_steps_at_once_are_all_noted(site: SpankSite, jobs: JobsOn) -> None:
    run = jobs.folder / "run"
    script = "for i in $(seq 50); do srun --overlap --quiet -n1 true & done; wait"
    job = jobs.submit(script, cpus_per_task=8, resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    assert sorted(note.step for note in read(run, job)) == list(range(50)), jobs.output(job)
    assert "slurm-resilience" not in jobs.output(job)
    site.wait_gone(jobs.show(job)["NodeList"])


def test_a_run_directory_on_a_full_disk_costs_no_job(site: SpankSite, jobs: JobsOn) -> None:
    try:
        disk = site.cluster.small_disk()
    except Impossible as impossible:
        pytest.skip(str(impossible))
    run = disk.path / "run"
    disk.fill()
    job = jobs.submit("srun true", resilient=True, resilient_run=run)
    assert jobs.wait_end(job) == "COMPLETED", jobs.output(job)
    node = jobs.show(job)["NodeList"]
    kept = site.look(node).spooled(job)
    disk.free()
    shipped = list(run.glob("exit-notes/*/*.jsonl"))
    assert any(name.endswith(".jsonl") for name in kept) or [
        len(path.read_text().splitlines()) for path in shipped
    ] == [1]
    assert not list(run.glob("exit-notes/*/.*.tmp"))
