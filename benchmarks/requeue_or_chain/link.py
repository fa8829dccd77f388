"""One run on the cluster that is ended again and again, and what lies between two of its attempts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.event_log import read_events
from benchmarks.scratch_cluster import SRUN_RESILIENT, job_environment
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.jobs import Jobs, wait_until

STEPS = Path(__file__).with_name("steps.py")
PATIENCE_S = 400.0
STEADY_S = 3.0


@dataclass(frozen=True)
class Run:
    jobs: Jobs
    folder: Path

    @classmethod
    def submit(cls, jobs: Jobs, way: str) -> Run:
        """`way`: as `--continue` takes it."""
        run = cls(jobs, jobs.folder / way)
        run.folder.mkdir()
        line = f"{SRUN_RESILIENT} --continue={way} --run-dir={run.folder}/run --plain {sys.executable} {STEPS}"
        script = f"#!/bin/bash\ndate +%s.%N >> {run.folder}/started\nexec {line} {run.folder}/events\n"
        jobs.submit(script, env=job_environment(), nodes=1, job_name=way, requeue=True)
        run._wait(lambda: run._begun(1) is not None, "the first attempt never stepped")
        return run

    def warn(self, attempt: int) -> None:
        """Warn this attempt once it runs, and wait until the next one has stepped."""
        time.sleep(STEADY_S)
        job = self._attempt(attempt).started.job
        assert job is not None
        self.jobs.ask("scancel", "--signal=USR1", job)
        self._wait(lambda: self._begun(attempt + 1) is not None, f"nothing went on after attempt {attempt}")

    def gaps_s(self, attempt: int) -> dict[str, float]:
        """From the end of this attempt to the moments of the next one."""
        ended_s, stepped_s = self._attempt(attempt).ended_s, self._begun(attempt + 1)
        assert ended_s is not None
        assert stepped_s is not None
        started_s = float((self.folder / "started").read_text().split()[attempt])
        return {"batch script": started_s - ended_s, "first step": stepped_s - ended_s}

    def _begun(self, attempt: int) -> float | None:
        """When the process of this attempt made its first step."""
        first = [event.time_s for event in read_events(self.folder / "events") if event.what == "first step"]
        return first[attempt - 1] if len(first) >= attempt else None

    def _attempt(self, number: int) -> Attempt:
        found = Chain.of(Journal(RunDirectory(self.folder / "run")).read()).attempt(number)
        assert found is not None
        return found

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        def told() -> str:
            said = "".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.jobs.folder.glob("*.out")))
            return f"{what}; {said}"

        wait_until(happened, told, PATIENCE_S)
