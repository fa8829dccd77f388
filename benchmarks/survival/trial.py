"""One training under one trouble on the cluster, watched until nothing more will come of it."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.event_log import Event, read_events
from benchmarks.free_port import free_port
from benchmarks.report import progress
from benchmarks.scratch_cluster import job_environment
from benchmarks.survival.outcome import Outcome, outcome_of
from benchmarks.survival.scenario import PREEMPT_AFTER_S, Scenario, Tool, Trouble, batch_script
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.jobs import ENDED, Jobs, wait_until

NODES = 2
BEGIN_S = 120.0
"""How long a job may take from its submission to its first step."""
WHOLE_S = 420.0
"""A bound for the whole of a trial, whatever happens: a time limit of a minute, a restart, two slow starts."""
SETTLE_S = 3.0
"""Slurm may still put an ended job back into the queue within this time."""


@dataclass(frozen=True)
class Trial:
    jobs: Jobs
    scenario: Scenario
    folder: Path

    def run(self, nodes: str) -> Outcome:
        """On these nodes, after a restart too. Raises NeverHappened for what doesn't begin, or has no end."""
        self.folder.mkdir()
        environment = job_environment() | {"BENCH_EVENTS": str(self.folder / "events.jsonl")}
        jobs = dataclasses.replace(self.jobs, folder=self.folder)
        began_s = time.monotonic()
        job = jobs.submit(
            batch_script(self.scenario, free_port()),
            env=environment,
            nodes=NODES,
            ntasks=NODES,
            nodelist=nodes,
            exclusive=True,
            job_name="training",
        )
        wait_until(
            lambda: self._told("stepped") or jobs.state(job) in ENDED,  # a warning may kill it before its first step
            lambda: f"no step of {self.folder.name}: {jobs.output(job)}",
            BEGIN_S,
        )
        if self.scenario.trouble is Trouble.PREEMPTED:
            time.sleep(PREEMPT_AFTER_S)
            jobs.preempt(job)
        self._wait_for_the_end(jobs, job, began_s + WHOLE_S)
        shown = jobs.show(job)
        outcome = outcome_of(
            self._events(),
            saved_step=self._committed_step(),
            state=shown["JobState"],
            exit_code=shown["ExitCode"],
            restarts=int(shown["Restarts"]),
        )
        progress(f"{self.folder.name}: {outcome}")
        return outcome

    def _wait_for_the_end(self, jobs: Jobs, job: str, deadline_s: float) -> None:
        """An end that lasts: not one that a requeue follows.

        Of an undisturbed training only the weights count: torchrun may wait minutes for a rank that crashed at exit.
        """
        if self.scenario.trouble is Trouble.NONE:
            wait_until(
                lambda: self._told("finished"), lambda: f"no end: {jobs.output(job)}", deadline_s - time.monotonic()
            )
            jobs.cluster.run("scancel", job)
        quiet_since_s: float | None = None
        while quiet_since_s is None or time.monotonic() < quiet_since_s + SETTLE_S:
            ended = jobs.state(job) in ENDED
            quiet_since_s = (quiet_since_s or time.monotonic()) if ended else None
            if time.monotonic() > deadline_s:
                wait_until(lambda: False, f"{self.folder.name} has no end: {jobs.state(job)}: {jobs.output(job)}", 0)
            time.sleep(0.5)

    def _events(self) -> list[Event]:
        return read_events(self.folder / "events.jsonl")

    def _told(self, what: str) -> bool:
        return any(event.what == what for event in self._events())

    def _committed_step(self) -> int | None:
        """The newest checkpoint of the first attempt, by the manifest; None for who has none."""
        if self.scenario.tool is not Tool.OURS:
            return None
        attempts = Chain.of(Journal(RunDirectory(self.folder / "run")).read()).attempts
        return max((checkpoint.step for checkpoint in attempts[0].checkpoints), default=0)
