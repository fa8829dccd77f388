"""A training on the cluster, warned again and again; each stop with its moments."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.event_log import Event, read_events
from benchmarks.job_processes import Farewells, processes_of
from benchmarks.report import progress
from benchmarks.scratch_cluster import SRUN_RESILIENT, job_environment
from benchmarks.warning_to_durable.parts import Stop
from slurm_resilience.manifest.agent_record import read_agent_record
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import AttemptEnded, CheckpointCommitted, DecisionCarriedOut, Line
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.jobs import Jobs, wait_until

TRAIN = Path(__file__).with_name("train.py")
NODES, RANKS_PER_NODE = 2, 2
PATIENCE_S = 120.0
STEADY_S = 2.0
"""How long the ranks have stepped before they are warned; and a random second more, to meet a step anywhere."""


@dataclass(frozen=True)
class Training:
    jobs: Jobs
    job: str
    folder: Path
    run: RunDirectory

    @classmethod
    def submit(cls, jobs: Jobs, *, megabytes: float, step_s: float) -> Training:
        folder = jobs.folder / f"{megabytes:g}mb-{step_s:g}s"
        run = RunDirectory(folder / "run")
        script = (
            f"#!/bin/bash\n#SBATCH --requeue\n"
            f"exec {SRUN_RESILIENT} --run-dir={run.path} --nproc-per-node={RANKS_PER_NODE}"
            f" {sys.executable} {TRAIN} --megabytes={megabytes:g} --step-seconds={step_s:g}\n"
        )
        environment = job_environment() | {"BENCH_EVENTS": str(folder / "events")}
        job = jobs.submit(script, env=environment, nodes=NODES, job_name="warned")
        return cls(jobs, job, folder, run)

    def stop(self, attempt: int) -> Stop:
        """Warn this attempt once it steps steadily; returns when Slurm has accepted its requeue."""
        self._wait(lambda: self._steps_since(attempt) > 0, f"attempt {attempt} never began to step")
        time.sleep(STEADY_S + random.random())
        with Farewells(processes_of(self.job)) as farewells:
            asked_s = time.time()
            self.jobs.ask("scancel", "--signal=USR1", self.job)
            self._wait(lambda: self._line(DecisionCarriedOut, attempt) is not None, "the job was never queued again")
            self._wait(lambda: "srun" in farewells.gone_s, "srun never ended")
        return Stop(asked_s, self._reached(attempt, asked_s, farewells.gone_s))

    def _reached(self, attempt: int, asked_s: float, gone_s: dict[str, float]) -> dict[str, float]:
        agents = [read_agent_record(path) for path in self.run.agent_records(attempt)]
        heard_s = [min(time_s for name, time_s in agent.signals if name == "SIGUSR1") for agent in agents if agent]
        committed = self._line(CheckpointCommitted, attempt)
        ended = self._line(AttemptEnded, attempt)
        requeued = self._line(DecisionCarriedOut, attempt)
        assert committed is not None
        assert isinstance(committed.record, CheckpointCommitted)
        assert ended is not None
        assert requeued is not None
        written_s = max((self.run.path / part.file).stat().st_mtime for part in committed.record.parts)
        begun_s = written_s - committed.record.seconds
        return {
            "heard": max(heard_s),
            "agreed": max(begun_s, self._last("step", asked_s, committed.time_s)),
            "durable": min(max(written_s, begun_s + committed.record.seconds), committed.time_s),
            "committed": committed.time_s,
            "left": self._last("left the with block", asked_s),
            "exit handlers": self._last("exit handlers ran", asked_s),
            "ranks gone": gone_s["rank"],
            "torchrun gone": gone_s["torchrun"],
            "agents gone": gone_s["agent"],
            "srun gone": gone_s["srun"],
            "decided": ended.time_s,
            "requeued": requeued.time_s,
        }

    def _events(self) -> list[Event]:
        return [event for path in (self.folder / "events").glob("rank-*.jsonl") for event in read_events(path)]

    def _last(self, what: str, since_s: float, until_s: float = float("inf")) -> float:
        return max((e.time_s for e in self._events() if e.what == what and since_s <= e.time_s <= until_s), default=0.0)

    def _steps_since(self, attempt: int) -> int:
        return sum(event.what == "step" and event.values["attempt"] == attempt for event in self._events())

    def _line(self, kind: type, attempt: int) -> Line | None:
        if not self.run.journal.exists():
            return None
        lines = Journal(self.run).read()
        return next(
            (line for line in lines if isinstance(line.record, kind) and getattr(line.record, "attempt", 0) == attempt),
            None,
        )

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        wait_until(happened, lambda: f"{what}; the job said: {self.jobs.output(self.job)[-2000:]}", PATIENCE_S)

    @property
    def step_reached(self) -> int:
        return Chain.of(Journal(self.run).read()).next_step


def stops_of(jobs: Jobs, *, megabytes: float, step_s: float, count: int) -> list[Stop]:
    """The moments of `count` stops of one job, each in an attempt of its own."""
    training = Training.submit(jobs, megabytes=megabytes, step_s=step_s)
    stops = []
    for attempt in range(1, count + 1):
        stop = training.stop(attempt)
        stops.append(stop)
        progress(
            f"{megabytes:g} MB a rank, steps of {step_s:g} s, stop {attempt} of {count}: committed after"
            f" {stop.since('committed'):.2f} s, step over after {stop.since('srun gone'):.2f} s,"
            f" requeued after {stop.since('requeued'):.2f} s"
        )
    jobs.clear()
    return stops
