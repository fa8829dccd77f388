"""A node loses its slurmd, its processes live on, and Slurm starts the job anew on other nodes.

What is left of the old attempt must end by itself, before anybody restarts a slurmd, and change nothing any more. The
nodes are set down by hand: Slurm notices by itself only after 25 s (22.05.8, SlurmdTimeout 5 or 15 s) and then does the
same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_resilience.manifest.agent_record import AgentRecord, read_agent_record
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointDamaged,
    Line,
    TrainingFinished,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.sandbox.process import Process, processes_with
from tests.slurm.jobs import PATIENCE_S, Jobs, leftovers, wait_until
from tests.slurm.survival import Training, undisturbed

ROOT = Path(__file__).parents[2]
GONE_S = 180.0
"""They end within a minute, on a machine that isn't busy."""
SAVED_EVERY = 4
STEPS = 150


@dataclass(frozen=True)
class Ghosts:
    """One job on two of the four nodes, which then lose their slurmds."""

    jobs: Jobs
    job: str
    run: RunDirectory
    marker: str

    @classmethod
    def submit(cls, jobs: Jobs, *, steps: int, save_every: int, step_s: float) -> Ghosts:
        run, marker = RunDirectory(jobs.folder / "run"), f"ghosts-{os.getpid()}-{jobs.folder.name}"
        training = f"{sys.executable} {ROOT}/tests/slurm/ghost_training.py {steps} {save_every} {step_s}"
        script = (
            f"{sys.executable} -m slurm_resilience.cli.srun_resilient --plain --run-dir={run.path} {training}\n"
            f'echo "$?" > {jobs.folder}/left-with-${{SLURM_RESTART_COUNT:-0}}\n'
        )
        job = jobs.submit(
            script, env={"PYTHONPATH": str(ROOT)}, marker=marker, nodes=2, ntasks_per_node=1, requeue=True
        )
        return cls(jobs, job, run, marker)

    @property
    def lines(self) -> list[Line]:
        return Journal(self.run).read() if self.run.journal.exists() else []

    @property
    def chain(self) -> Chain:
        return Chain.of(self.lines)

    def wait_committed(self) -> None:
        wait_until(
            lambda: any(isinstance(line.record, CheckpointCommitted) for line in self.lines), self.told, PATIENCE_S
        )

    def told(self) -> str:
        journal = self.run.journal.read_text()[-3000:] if self.run.journal.exists() else "(none)"
        return f"job {self.jobs.state(self.job)}; journal: {journal}; output: {self.jobs.output(self.job)[-3000:]}"

    def lose(self, *numbers: int) -> None:
        lose_nodes(self.jobs, self.job, *numbers)

    def old_processes(self) -> list[Process]:
        return old_processes(self.marker)

    def agent(self, node: int) -> AgentRecord:
        record = read_agent_record(self.run.agent_record(1, node))
        assert record is not None
        return record

    def wait_finished(self) -> None:
        wait_until(lambda: bool(self.lines) and self.chain.finished, self.told, PATIENCE_S)
        wait_until(lambda: self.jobs.state(self.job) == "COMPLETED", self.told, PATIENCE_S)

    def check_nothing_of_the_old_attempt_is_told_after_the_new_one_began(self) -> None:
        records = [line.record for line in self.lines]
        began = next(
            n for n, record in enumerate(records) if isinstance(record, AttemptStarted) and record.attempt == 2
        )
        late = [
            record
            for record in records[began:]
            if isinstance(record, CheckpointCommitted | TrainingFinished) and record.attempt == 1
        ]
        assert late == []
        assert not any(isinstance(record, CheckpointDamaged) for record in records)


@pytest.fixture(autouse=True)
def _nodes_come_back(jobs: Jobs) -> Iterator[None]:
    """All of them are started before any is waited for."""
    yield
    jobs.start_slurmds()


def lose_nodes(jobs: Jobs, job: str, *numbers: int) -> None:
    """SIGKILL to the slurmds of these nodes of the job; then Slurm is told that the nodes are gone."""
    cluster = jobs.cluster
    shown = jobs.ask("scontrol", "show", "hostnames", jobs.show(job)["NodeList"]).out.split()
    lost = [shown[number] for number in numbers]
    for node in lost:
        cluster.kill_slurmd(node)
    jobs.ask("scontrol", "update", f"NodeName={','.join(lost)}", "State=DOWN", "Reason=lost")


def old_processes(marker: str) -> list[Process]:
    """What lives of the job's first run: there SLURM_RESTART_COUNT is not set."""
    return list(processes_with(lambda _, env: env.get("TEST_MARKER") == marker and "SLURM_RESTART_COUNT" not in env))


def test_ghosts_that_nobody_signals_see_the_newer_attempt_and_end(jobs: Jobs) -> None:
    ghosts = Ghosts.submit(jobs, steps=STEPS, save_every=40, step_s=0.1)
    ghosts.wait_committed()
    ghosts.lose(0, 1)
    assert ghosts.old_processes() != []
    wait_until(lambda: len(ghosts.chain.attempts) == 2, ghosts.told, PATIENCE_S)
    wait_until(lambda: ghosts.old_processes() == [], ghosts.told, GONE_S)
    assert not any(jobs.cluster.slurmd_alive(node) for node in jobs.cluster.node_names[:2])
    assert {ghosts.agent(node).stop_reason for node in (0, 1)} == {"FENCED"}
    ghosts.wait_finished()
    first, second = ghosts.chain.attempts
    assert first.ended is not None
    # srun gives a lost step up after KillWait and 2 s: as a rule the job's next life has told our end by then.
    told_by_itself = first.ended.cause is Cause.REQUEUED_BY_HAND
    assert told_by_itself or first.ended.cause is Cause.NODE_FAILURE
    assert (jobs.folder / "left-with-0").read_text().strip() == ("75" if told_by_itself else "79")
    assert second.resumed is not None
    assert second.resumed.step == max(checkpoint.step for checkpoint in first.checkpoints)
    final = ghosts.chain.loadable()[0].committed
    assert (ghosts.run.path / final.parts[0].file).read_text() == f"{STEPS} {STEPS * (STEPS + 1) // 2}"
    ghosts.check_nothing_of_the_old_attempt_is_told_after_the_new_one_began()
    assert jobs.show(ghosts.job)["Restarts"] == "1"
    wait_until(lambda: leftovers(ghosts.marker) == [], lambda: f"left over: {leftovers(ghosts.marker)}", PATIENCE_S)


@pytest.fixture
def reference(jobs: Jobs, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Training:
    base = tmp_path_factory.getbasetemp()
    return undisturbed(jobs, base if worker_id == "master" else base.parent)


@pytest.mark.parametrize("cluster", ["linuxproc"], indirect=True)
@pytest.mark.parametrize("lost", [(1,), (0,), (0, 1)], ids=["another node", "the batch node", "all its nodes"])
def test_a_training_whose_nodes_are_lost_but_alive_goes_on_elsewhere_and_its_ghosts_end(
    jobs: Jobs, reference: Training, lost: tuple[int, ...]
) -> None:
    # Nobody signals ghosts all of whose nodes are lost: they must not have finished before the next attempt begins.
    # And a step takes longer than a save, or more would be lost than came after the last one that was begun.
    training = Training.submit(
        jobs, arguments=f"--save-every-steps={SAVED_EVERY}", step_seconds=2 if len(lost) == 2 else 1.2
    )
    training.wait_committed()
    lose_nodes(jobs, training.job, *lost)
    training.wait_attempt(2)
    wait_until(lambda: old_processes(training.marker) == [], lambda: f"{old_processes(training.marker)}", GONE_S)
    training.wait_finished()
    cause = training.attempts[0].ended
    assert cause is not None
    training.check(reference, cause.cause, lost_steps=SAVED_EVERY, restarts=1)
    for checkpoint in training.chain.checkpoints:
        folders = {Path(part.file).parent for part in checkpoint.committed.parts}
        assert len(folders) == 1
        assert len(checkpoint.committed.parts) == checkpoint.committed.world_size == 4
