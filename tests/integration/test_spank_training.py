"""Trainings with the plugin: behind a bare srun, where the relay hears for them, and behind srun-resilient."""

from __future__ import annotations

import re

import pytest

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause, SaveReason
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.triage.exit_notes import read_exit_notes
from tests.clusters.running import DIGITS, DIGITS_STEPS, Running
from tests.integration.spank_site import BOTH, SpankSite
from tests.integration.spank_site import no_node_is_drained as no_node_is_drained  # noqa: PLC0414 found by their names
from tests.integration.spank_site import plugin_cluster as plugin_cluster  # noqa: PLC0414
from tests.integration.spank_site import site as site  # noqa: PLC0414
from tests.slurm.jobs import ENDED, PATIENCE_S, JobsOn, wait_until

pytestmark = BOTH
BARE = """
export MASTER_ADDR={address} MASTER_PORT=$((20000 + (SLURM_JOB_ID * 7 + ${{SLURM_RESTART_COUNT:-0}}) % 10000))
export WORLD_SIZE=2 step=$([ -z "$SLURM_RESTART_COUNT" ] && echo 0.5 || echo 0.02)
srun --quiet bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=0 exec {python} {repository}/{digits} --step-seconds $step' || exit
echo "left, restarted ${{SLURM_RESTART_COUNT:-0}} times"
[ -n "$SLURM_RESTART_COUNT" ] || exec sleep 600  # Slurm requeues what still runs when the grace is over
"""


def test_a_preempted_training_of_a_bare_srun_stops_at_one_step_and_goes_on_when_slurm_has_requeued_it(
    site: SpankSite, jobs: JobsOn
) -> None:
    cluster = site.cluster
    if not cluster.has_torch:
        pytest.skip(f"the {cluster.name} cluster has no torch")
    run = RunDirectory(jobs.folder / "run")
    address = "127.0.0.1" if cluster.name == "embedded" else "$(scontrol show hostnames | head -1)"
    script = BARE.format(address=address, python=cluster.python, repository=cluster.repository, digits=DIGITS)
    environment = {**cluster.environment, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    given = {"nodes": 2, "ntasks_per_node": 1, "cpus_per_task": 8, "requeue": True, "time": 20}
    marker = jobs.folder.name
    job = jobs.submit(script, env=environment, marker=marker, resilient_run=run.path, **given)

    def chain() -> Chain:
        return Chain.of(Journal(run).read())

    def story() -> str:
        journal = run.journal.read_text()[-6000:] if run.journal.exists() else "no journal"
        return f"{jobs.state(job)}: {jobs.output(job)[-3000:]}; {journal}"

    wait_until(
        lambda: run.journal.exists() and bool(chain().checkpoints), lambda: f"nothing is saved: {story()}", PATIENCE_S
    )
    jobs.preempt(job)
    jobs.wait_output(job, "left, restarted 0 times")
    [first] = chain().attempts
    stopped = first.checkpoints[-1]
    assert stopped.reason is SaveReason.STOP, story()
    assert stopped.step < DIGITS_STEPS
    assert first.stop_asked is not None
    assert "SIGTERM came to " in first.stop_asked.because

    wait_until(lambda: chain().finished, lambda: f"it never finishes: {story()}", PATIENCE_S)
    wait_until(lambda: jobs.state(job) in ENDED, story, PATIENCE_S)
    assert jobs.state(job) == "COMPLETED", story()
    # Slurm 24.11 runs a preempted job once more after its second life, however that ended.
    first, second, *more = chain().attempts
    assert all(attempt.resumed is not None and attempt.resumed.step == DIGITS_STEPS for attempt in more), story()
    assert second.resumed is not None
    assert second.resumed.step == stopped.step, story()
    for restart in (0, 1):
        notes = read_exit_notes(run.exit_notes(job, restart), restart, pytest.fail)
        assert sorted(note.rank for note in notes) == [0, 1]
    site.wait_gone()


@pytest.mark.quick
def test_srun_resilient_uses_the_plugin_and_needs_no_relay(site: SpankSite, jobs: JobsOn) -> None:
    running = Running.light(site.cluster, jobs, finishes_in=2)
    running.wait_committed()
    for node in running.nodes:
        assert site.look(node).relays == {}
    jobs.preempt(running.job)
    running.wait_finished()
    running.check(Cause.PREEMPTED)
    running.check_light()
    for restart, attempt in enumerate(running.attempts):
        assert attempt.started.restart_count in (restart, None)
        notes = read_exit_notes(running.run.exit_notes(running.job, restart), restart, pytest.fail)
        assert len({note.node for note in notes}) == 2, running.story()
    words = (site.cluster.python, "-m", "slurm_resilience.cli.main", "status", str(running.run.path), "--attempt=1")
    shown = jobs.ask(*words, env=site.cluster.environment, timeout_s=PATIENCE_S).out
    for node in {note.node for note in read_exit_notes(running.run.exit_notes(running.job, 0), 0, pytest.fail)}:
        assert re.search(rf"\b{node}\b.*\b75\b|\b75\b.*\b{node}\b", shown), shown


def test_the_doctor_finds_the_plugin_well_and_a_probe_proves_it(site: SpankSite, owners_jobs: JobsOn) -> None:
    words = (site.cluster.python, "-m", "slurm_resilience.cli.main", "spank", "doctor", "--probe")
    answer = owners_jobs.cluster.run(*words, env=site.cluster.environment, timeout_s=PATIENCE_S)
    assert answer.code == 0, answer.out + answer.err
    assert "had the plugin and its relay" in answer.out
