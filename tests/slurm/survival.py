"""A real training on the real cluster, what is done to it, and what must be true afterwards."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from slurm_resilience.checkpoint.compare import StoredPart, compare_parts
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.manifest.chain import Attempt, Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptResumed, Cause, CheckpointCommitted
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.sandbox.process import Process
from tests.slurm.jobs import Jobs, leftovers, wait_until

ROOT = Path(__file__).parents[2]
STEPS = 48
SAVE_EVERY = 10
TRAINING = f"{ROOT}/examples/digits.py --epochs 2 --batch-size 16 --workers 2 --save-every-steps {SAVE_EVERY}"
PATIENCE_S = 300.0
"""Four ranks with torch begin twice in it, on two cores that others use, too."""
COMPARED = ("objects", "position", "random/torch")
"""Weights, optimizer, schedule, place and torch's random numbers; the example seeds neither Python's nor NumPy's."""

SCRIPT = """#!/bin/bash
#SBATCH --requeue
set -u
first=$([ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] && echo yes || echo no)
step_seconds=$([ $first = yes ] && echo {step_seconds} || echo 0.02)
{before}
{launch} {options} {python} {training} --step-seconds $step_seconds {arguments}
"""


@dataclass(frozen=True)
class Training:
    """One training as a job of the cluster."""

    jobs: Jobs
    job: str
    run: RunDirectory
    marker: str

    @classmethod
    def submit(
        cls,
        jobs: Jobs,
        *,
        options: str = "",
        arguments: str = "",
        step_seconds: float = 0.5,
        exec_it: bool = True,
        before: str = "",
        run: Path | None = None,
        **sbatch: object,
    ) -> Training:
        folder = run or jobs.folder / "run"
        marker = f"survival-{os.getpid()}-{jobs.folder.name}"
        launch = f"{sys.executable} -m slurm_resilience.cli.srun_resilient --nproc-per-node=2 --run-dir={folder}"
        script = SCRIPT.format(
            before=before,
            launch=f"exec {launch}" if exec_it else launch,
            options=options,
            python=sys.executable,
            training=TRAINING,
            step_seconds=step_seconds,
            arguments=arguments,
        )
        environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        job = jobs.submit(script, env=environment, marker=marker, **{"nodes": 2, "job_name": "survivor"} | sbatch)
        return cls(jobs, job, RunDirectory(folder), marker)

    def again(self, job: str, folder: Path) -> Training:
        return dataclasses.replace(self, job=job, run=RunDirectory(folder))

    @property
    def chain(self) -> Chain:
        return Chain.of(Journal(self.run).read())

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.chain.attempts if self.run.journal.exists() else ()

    def wait(self, happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        def told() -> str:
            journal = self.run.journal.read_text()[-3000:] if self.run.journal.exists() else "(none)"
            output = self.jobs.output(self.job)[-3000:]
            return f"{what}; job {self.jobs.state(self.job)}; journal: {journal}; output: {output}"

        wait_until(happened, told, timeout_s)

    def wait_committed(self, count: int = 1, attempt: int = 1) -> None:
        """Until this attempt has committed that many checkpoints."""

        def committed() -> bool:
            return any(a.number == attempt and len(a.checkpoints) >= count for a in self.attempts)

        self.wait(committed, f"attempt {attempt} never committed {count} checkpoints")

    def wait_resumed(self, attempt: int = 1) -> None:
        """Until the ranks of this attempt hold their state: the first step begins."""
        self.wait(
            lambda: any(a.number == attempt and a.resumed is not None for a in self.attempts),
            f"attempt {attempt} never resumed",
        )

    def wait_attempt(self, number: int) -> None:
        self.wait(lambda: any(a.number == number for a in self.attempts), f"attempt {number} never started")

    def wait_finished(self) -> None:
        self.wait(lambda: self.run.journal.exists() and self.chain.finished, "the run never finished")
        self.wait(lambda: self.jobs.state(self.job) == "COMPLETED", "the job never completed")

    def wait_ended_by_time(self) -> None:
        """Until the first attempt, which has a minute, is over; its successors get ten."""
        self.wait(lambda: bool(self.attempts) and self.attempts[0].ended is not None, "the first attempt never ended")
        wait_until(
            lambda: self.jobs.cluster.run("scontrol", "update", f"JobId={self.job}", "TimeLimit=10").code == 0,
            f"the time limit of job {self.job} could not be raised",
            PATIENCE_S,
        )

    def check_ended_by_time(self, reference: Training, *causes: Cause) -> None:
        """The first attempt ended by one of these, and lost no step; slow to begin, it may have done none."""
        first = self.attempts[0].ended
        assert first is not None
        assert first.cause in causes, self.run.journal.read_text()
        self.check(reference, first.cause, lost_steps=0 if first.step else 1)

    def processes(self, words: str) -> list[Process]:
        """Processes of this job in whose command line `words` occur."""
        return [process for process in leftovers(self.marker) if words in _command_line(process.pid)]

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def agent_pid(self, node_id: int, attempt: int = 1) -> int:
        return int(json.loads(self.run.agent_record(attempt, node_id).read_bytes())["pid"])

    def rank_pid(self, node_id: int, attempt: int = 1) -> int:
        pids: list[int] = []

        def known() -> bool:
            ranks = json.loads(self.run.agent_record(attempt, node_id).read_bytes())["ranks"]
            pids[:] = [int(rank["pid"]) for rank in ranks]
            return len(pids) == 2

        self.wait(known, f"node agent {node_id} never recorded its ranks")
        return pids[1]

    def check(
        self,
        reference: Training,
        *causes: Cause,
        lost_steps: int = 0,
        restarts: int | None = None,
    ) -> None:
        """The run finished by way of attempts that ended by `causes`, as if nothing had happened."""
        chain = self.chain
        assert chain.finished
        ends = [attempt.ended.cause if attempt.ended is not None else None for attempt in chain.attempts]
        assert ends == [*causes, Cause.FINISHED], self.run.journal.read_text()
        for attempt in chain.attempts[:-1]:
            lost = chain.steps_lost(attempt.number)
            assert lost is None or lost <= lost_steps, self.run.journal.read_text()
            if lost_steps == 0:
                assert lost == 0, self.run.journal.read_text()
        self._check_every_attempt_went_on_from_the_newest_checkpoint()
        for attempt in chain.attempts[1:]:
            assert attempt.resumed is not None
            assert attempt.resumed.checkpoint is not None or lost_steps > 0
        assert all(checkpoint.state is not CheckpointState.DAMAGED for checkpoint in chain.checkpoints)
        assert self.jobs.show(self.job)["Restarts"] == str(len(causes) if restarts is None else restarts)
        different = differences(self, reference)
        assert different == [], (different[:20], self.run.journal.read_text())
        wait_until(lambda: leftovers(self.marker) == [], lambda: f"left over: {leftovers(self.marker)}", 120)

    def _check_every_attempt_went_on_from_the_newest_checkpoint(self) -> None:
        newest = 0
        for line in Journal(self.run).read():
            match line.record:
                case CheckpointCommitted(step=step):
                    newest = max(newest, step)
                case AttemptResumed(step=step):
                    assert step == newest, self.run.journal.read_text()


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def final_checkpoint(training: Training) -> CheckpointCommitted:
    newest = training.chain.loadable()[0].committed
    assert newest.step == STEPS
    return newest


def differences(a: Training, b: Training) -> list[str]:
    """Where the final states of two runs differ, bit for bit, over all ranks."""
    found = []
    for mine, theirs in zip(final_checkpoint(a).parts, final_checkpoint(b).parts, strict=True):
        parts = [
            StoredPart(Hdf5Store(t.run.path), PartReceipt(p.rank, p.file, p.bytes, p.checksum))
            for t, p in ((a, mine), (b, theirs))
        ]
        found += [f"rank {mine.rank}: {d.name}: {d.why}" for d in compare_parts(*parts, prefixes=COMPARED)]
    return found


def undisturbed(jobs: Jobs, shared: Path) -> Training:
    """The same training that nobody disturbs: run once for all test processes."""
    folder = shared / "undisturbed"
    reference = Training(jobs, "", RunDirectory(folder), "")
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            training = Training.submit(jobs, run=folder, step_seconds=0)
            training.wait_finished()
            assert len(training.attempts) == 1
    return reference
