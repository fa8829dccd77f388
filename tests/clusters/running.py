"""A run on a cluster under test, what is done to it, and what must be true afterwards."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.compare import StoredPart, compare_parts
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.manifest.chain import Attempt, Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptResumed, AttemptStarted, Cause, CheckpointCommitted
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.clusters.cluster import ClusterUnderTest
from tests.slurm.jobs import ENDED, JobsOn, wait_until
from tests.slurm.light_training import value_after
from tests.slurm.survival import COMPARED

STEPS, SAVE_EVERY = 60, 7
LIGHT = f"tests/slurm/light_training.py {STEPS} {SAVE_EVERY}"
DIGITS_STEPS, DIGITS_SAVE_EVERY = 24, 5
DIGITS = f"examples/digits.py --epochs 1 --batch-size 32 --workers 1 --save-every-steps {DIGITS_SAVE_EVERY}"
"""On two ranks."""
PATIENCE_S = 200.0
SILENT_AFTER_S = 20
"""After how long without a sign of life an agent is taken for dead; a minute by default."""


@dataclass
class Running:
    """A run of an ordinary user or of root, as one job or as several."""

    cluster: ClusterUnderTest
    jobs: JobsOn
    job: str
    run: RunDirectory
    marker: str

    @classmethod
    def light(
        cls,
        cluster: ClusterUnderTest,
        jobs: JobsOn,
        *,
        options: str = "",
        step_s: float = 0.15,
        finishes_in: int = 1,
        **sbatch: object,
    ) -> Running:
        """A training without torch on two nodes; from the second attempt on it is fast.

        An attempt before `finishes_in` does not take the last step, however late what is done to it comes.
        """
        words = f"--plain {options} {cluster.python} {cluster.repository}/{LIGHT} {step_s} 0.02 {finishes_in}"
        return cls.submit(cluster, jobs, words, sbatch)

    @classmethod
    def digits(
        cls,
        cluster: ClusterUnderTest,
        jobs: JobsOn,
        *,
        options: str = "",
        step_s: float = 0.5,
        run: Path | None = None,
        **sbatch: object,
    ) -> Running:
        """A training with torch, one rank on each of two nodes; from the second attempt on it is fast."""
        step = f'$([ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] && echo {step_s} || echo 0.02)'
        words = f"--nproc-per-node=1 {options} {cluster.python} {cluster.repository}/{DIGITS} --step-seconds {step}"
        return cls.submit(cluster, jobs, words, sbatch, run=run)

    @classmethod
    def submit(
        cls,
        cluster: ClusterUnderTest,
        jobs: JobsOn,
        words: str,
        sbatch: Mapping[str, object],
        *,
        run: Path | None = None,
    ) -> Running:
        """`words`: what stands behind srun-resilient and the run's directory."""
        directory = RunDirectory(run or jobs.folder / "run")
        marker = f"running-{os.getpid()}-{jobs.folder.name}"
        launch = f"{cluster.python} -m slurm_resilience.cli.srun_resilient --run-dir={shlex.quote(str(directory.path))}"
        options: dict[str, object] = {"nodes": 2, "ntasks_per_node": 1, "requeue": True, "job_name": "running"}
        # A whole node each, so that what is done to one job hits no other.
        options |= {"cpus_per_task": 8, "time": "20"}
        environment = {
            **cluster.environment,
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "SLURM_RESILIENCE_SILENT_AFTER": str(SILENT_AFTER_S),
        }
        job = jobs.submit(f"exec {launch} {words}", env=environment, marker=marker, **options | dict(sbatch))
        return cls(cluster, jobs, job, directory, marker)

    @property
    def chain(self) -> Chain:
        return Chain.of(Journal(self.run).read())

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.chain.attempts if self.run.journal.exists() else ()

    @property
    def causes(self) -> list[Cause | None]:
        return [attempt.ended.cause if attempt.ended is not None else None for attempt in self.attempts]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Of the job as it runs now; the batch script is on the first."""
        listed = self.jobs.show(self.job)["NodeList"]
        return tuple(self.jobs.ask("scontrol", "show", "hostnames", listed).out.split())

    def story(self) -> str:
        journal = self.run.journal.read_text()[-6000:] if self.run.journal.exists() else "(no journal)"
        outputs = sorted(self.jobs.folder.glob("*.out"))
        said = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-4000:]}" for path in outputs)
        return f"job {self.job} is {self.jobs.state(self.job)}; journal: {journal}; {said}"

    def wait(self, happened: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        wait_until(happened, lambda: f"{what}\n{self.story()}", timeout_s)

    def wait_committed(self, count: int = 1, attempt: int = 1) -> None:
        def committed() -> bool:
            return any(a.number == attempt and len(a.checkpoints) >= count for a in self.attempts)

        self.wait(committed, f"attempt {attempt} never committed {count} checkpoints")

    def wait_attempt(self, number: int) -> None:
        self.wait(lambda: any(a.number == number for a in self.attempts), f"attempt {number} never started")

    def wait_finished(self) -> None:
        """Until the run is finished and the job of its last attempt is over."""
        self.wait(lambda: bool(self.attempts) and self.chain.finished, "the run never finished")
        self.wait(lambda: self.attempts[-1].ended is not None, "nobody told the end of the last attempt")
        last = self.attempts[-1].started.job
        self.wait(lambda: self.jobs.state(str(last)) in ENDED, "the last job is never over")
        assert self.jobs.state(str(last)) == "COMPLETED", self.story()

    def kill_training(self, node: str, number: signal.Signals = signal.SIGKILL) -> None:
        """The user's own processes on that node; supervisor and agents have its name in their command lines, too."""
        killed = self.cluster.kill(node, self.marker, number, ".py", but="-m slurm_resilience")
        assert killed > 0, self.story()

    def check(self, *causes: Cause, lost_steps: int = 0) -> None:
        """The run went by way of attempts that ended by `causes` to its end; nothing was lost or done twice."""
        assert self.chain.finished, self.story()
        assert self.causes == [*causes, Cause.FINISHED], self.story()
        for attempt in self.attempts[:-1]:
            lost = self.chain.steps_lost(attempt.number)
            assert lost is None or lost <= lost_steps, self.story()
            assert lost is not None or lost_steps > 0, self.story()
            assert attempt.ended is not None
            assert attempt.ended.because, self.story()
        self._check_every_attempt_went_on_from_the_newest_checkpoint()
        assert all(checkpoint.state is not CheckpointState.DAMAGED for checkpoint in self.chain.checkpoints)
        self.check_nothing_left()

    def _check_every_attempt_went_on_from_the_newest_checkpoint(self) -> None:
        newest = running = 0
        for line in Journal(self.run).read():
            match line.record:
                case AttemptStarted(attempt=attempt):
                    running = attempt
                case CheckpointCommitted(step=step, attempt=attempt):
                    newest = max(newest, step)
                    assert attempt == running, self.story()
                case AttemptResumed(step=step, attempt=attempt):
                    assert (attempt, step) == (running, newest), self.story()

    def check_nothing_left(self) -> None:
        for node in self.cluster.node_names:
            wait_until(
                lambda node=node: not self.cluster.processes(node, self.marker),  # type: ignore[misc]
                lambda node=node: f"left over on {node}: {self.cluster.processes(node, self.marker)}",  # type: ignore[misc]
                90,  # what nobody can reach ends by itself, half a minute after it has seen a newer attempt
            )

    def check_light(self) -> None:
        """Its state is a chain of hashes over all its steps."""
        final = self.final()
        state = json.loads((self.run.path / final.parts[0].file).read_bytes())
        assert (final.step, state["value"]) == (STEPS, value_after(STEPS)), self.story()

    def check_same_as(self, other: Running) -> None:
        """The final states of two runs are the same, bit for bit, on all ranks."""
        assert self.final().step == other.final().step == DIGITS_STEPS, self.story()
        for mine, theirs in zip(self.final().parts, other.final().parts, strict=True):
            parts = [
                StoredPart(Hdf5Store(each.run.path), PartReceipt(p.rank, p.file, p.bytes, p.checksum))
                for each, p in ((self, mine), (other, theirs))
            ]
            different = [f"rank {mine.rank}: {d.name}: {d.why}" for d in compare_parts(*parts, prefixes=COMPARED)]
            assert different == [], different[:20]

    def final(self) -> CheckpointCommitted:
        return self.chain.loadable()[0].committed
