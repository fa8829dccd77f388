"""The story of the project on one machine: a training is preempted in the middle and ends as if it had not been."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.clock import Clock
from slurm_resilience.errors import EXIT_WILL_NOT_GO_ON, ConfigurationError, ResilienceError
from slurm_resilience.rehearsal.storyteller import Storyteller
from slurm_resilience.rehearsal.training_job import STEPS, TrainingJob, missing_packages
from slurm_resilience.sandbox.cluster import Cluster
from slurm_resilience.sandbox.config import ClusterSpec

LOOK_S = 0.5
PREEMPT_AFTER = STEPS // 3
PATIENCE_S = 600.0


class DemonstrationFailed(ResilienceError):
    pass


@dataclass(frozen=True, slots=True)
class Demonstration:
    """`say` gets sentences, `progress` the name of a run with its step: however they are shown."""

    folder: Path
    clock: Clock
    say: Callable[[str], None]
    progress: Callable[[str, int], None]

    def prepare(self) -> tuple[TrainingJob, TrainingJob]:
        """An empty folder and the two trainings. Raises ConfigurationError for a folder that isn't ours."""
        missing = missing_packages()
        if missing:
            raise ConfigurationError(f"the demonstration needs packages that are missing here: {', '.join(missing)}")
        mark = self.folder / ".slurm-resilience-demo"
        if self.folder.exists() and any(self.folder.iterdir()) and not mark.exists():
            raise ConfigurationError(f"{self.folder} exists and is not a demonstration's folder: give another --folder")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        mark.touch()
        return TrainingJob("preempted", self.folder), TrainingJob("undisturbed", self.folder)

    def on_slurm(self) -> tuple[TrainingJob, TrainingJob]:
        """Two nodes train and are preempted, two others train in peace. Both runs when they are finished."""
        preempted, undisturbed = self.prepare()
        with Cluster(ClusterSpec(nodes=4)) as cluster:
            version = cluster.status().version
            self.say(f"Slurm {version}: controller and 4 nodes are up on this machine")
            jobs = {job.name: self._submit(cluster, job) for job in (preempted, undisturbed)}
            hit = False
            tellers = {job.name: Storyteller(job.name) for job in (preempted, undisturbed)}
            deadline_s = self.clock.monotonic_s() + PATIENCE_S
            while not self._finished(preempted, undisturbed):
                for job in (preempted, undisturbed):
                    self._tell(tellers[job.name], job)
                if not hit and preempted.step(preempted.chain()) >= PREEMPT_AFTER:
                    self._preempt(cluster, jobs[preempted.name])
                    hit = True
                self._check(deadline_s, preempted, undisturbed)
                self.clock.sleep(LOOK_S)
            for job in (preempted, undisturbed):
                self._tell(tellers[job.name], job)
        self._check_story(preempted, 2)
        self._check_story(undisturbed, 1)
        return preempted, undisturbed

    def _check_story(self, job: TrainingJob, attempts: int) -> None:
        """A story that went otherwise proves nothing."""
        chain = job.chain()
        if chain is None or len(chain.attempts) != attempts:
            raise DemonstrationFailed(f"{job.name} took another number of attempts than {attempts}; see {job.folder}")

    def without_slurm(self) -> tuple[TrainingJob, TrainingJob]:
        """One after the other on this machine: interrupted by a signal, and started again by hand."""
        preempted, undisturbed = self.prepare()
        self._run_locally(undisturbed, interrupt=False)
        self._run_locally(preempted, interrupt=True)
        self._run_locally(preempted, interrupt=False)
        self._check_story(preempted, 2)
        self._check_story(undisturbed, 1)
        return preempted, undisturbed

    def _submit(self, cluster: Cluster, job: TrainingJob) -> str:
        script = self.folder / f"{job.name}.sbatch"
        script.write_text(job.batch_script())
        done = cluster.run("sbatch", "--parsable", str(script), env=job.environment(cluster.environment()))
        if done.code != 0:
            raise DemonstrationFailed(f"the training could not be submitted: {done.complaint}")
        return done.out.strip()

    def _preempt(self, cluster: Cluster, job: str) -> None:
        nodes = cluster.run("squeue", "--noheader", "--jobs", job, "--format", "%N").out.strip()
        self.say(f"now a job of the higher partition wants {nodes}")
        done = cluster.run(
            *("sbatch", "--partition=high", "--nodes=2", f"--nodelist={nodes}", "--exclusive"),
            *("--output=/dev/null", "--job-name=important", "--wrap=sleep 3"),
        )
        if done.code != 0:
            raise DemonstrationFailed(f"the preempting job could not be submitted: {done.complaint}")

    def _tell(self, teller: Storyteller, job: TrainingJob) -> None:
        chain = job.chain()
        for sentence in teller.news(chain):
            self.say(sentence)
        self.progress(job.name, job.step(chain))

    def _finished(self, *jobs: TrainingJob) -> bool:
        """All ended as finished: their last words are in the journal."""
        chains = [job.chain() for job in jobs]
        return all(
            chain is not None
            and chain.finished
            and chain.newest_attempt is not None
            and chain.newest_attempt.carried_out is not None
            for chain in chains
        )

    def _check(self, deadline_s: float, *jobs: TrainingJob) -> None:
        for job in jobs:
            chain = job.chain()
            newest = chain.newest_attempt if chain is not None else None
            if newest is not None and newest.ended is not None and newest.ended.decision == "stop":
                raise DemonstrationFailed(f"{job.name} ended: {newest.ended.decision_reason}; see {job.folder}")
        if self.clock.monotonic_s() > deadline_s:
            raise DemonstrationFailed(f"it took more than {PATIENCE_S:g} s; the jobs' output is in {self.folder}")

    def _run_locally(self, job: TrainingJob, *, interrupt: bool) -> None:
        """Raises DemonstrationFailed where it doesn't end as it must."""
        teller, asked = Storyteller(job.name), False
        with (self.folder / f"{job.name}.out").open("ab") as output:
            child = subprocess.Popen(
                job.command("--mode=local", nproc_per_node=4),
                env=job.environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                while child.poll() is None:
                    self._tell(teller, job)
                    if interrupt and not asked and job.step(job.chain()) >= PREEMPT_AFTER:
                        self.say("now somebody sends SIGTERM")
                        child.send_signal(signal.SIGTERM)
                        asked = True
                    self.clock.sleep(LOOK_S)
            finally:
                if child.poll() is None:
                    child.terminate()
                    child.wait()
        self._tell(teller, job)
        expected = EXIT_WILL_NOT_GO_ON if interrupt else 0
        if child.returncode != expected:
            raise DemonstrationFailed(f"{job.name} left with {child.returncode}; see {self.folder / job.name}.out")
