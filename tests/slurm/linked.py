"""A run that goes on by successors, as jobs of the cluster: a light program with as many lives as are asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.slurm.foreign import PATIENCE_S, Foreign
from tests.slurm.jobs import wait_until

LIVES = """
import os, signal, sys, time
from pathlib import Path

notes, lives = Path(sys.argv[1]), int(sys.argv[2])
heard = []
for name in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(name, lambda *_: heard.append(1))
number = len(list(notes.glob("life-*"))) + 1
(notes / f"life-{number}").write_text(os.environ["SLURM_JOB_ID"])
while not heard and number < lives:
    time.sleep(0.05)
"""
"""Waits for a signal and leaves with 0; in its last life at once."""

LEAKS = (
    "export SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_MEM_PER_CPU=1 SBATCH_ACCOUNT=nobody SRUN_LEAK=1 PMIX_LEAK=1 RANK=7"
)


@dataclass(frozen=True)
class Linked(Foreign):
    def submit_chain(self, lives: int, *options: str, run: str | None = None, **sbatch: object) -> str:
        """One task; every attempt's batch script writes down what it inherited, and puts into it what must not go on.

        `run`: the folder of the run and its notes, as the shell expands it.
        """
        where = run or shlex.quote(str(self.folder))
        words = self.words(f"--run-dir={where}/run", "--continue=chain", *options, "--plain", run_dir=False)
        line = " ".join([*words, *self.program(LIVES)[:2], where, str(lives)])
        script = f"env -0 > {self.folder}/env-$SLURM_JOB_ID\n{LEAKS}\nexec {line}"
        given = {"nodes": 1, "job_name": "linked", "requeue": True, "time": 10} | sbatch
        return self.jobs.submit(script, env=self.environment, marker=self.marker, **given)

    def wait_life(self, number: int, folder: str = "") -> str:
        name = f"{folder}life-{number}"
        self.wait_noted(name)
        wait_until(lambda: self.noted(name) != "", f"{name} is empty", PATIENCE_S)
        return self.noted(name)

    def wait_successor(self, attempt: int = 1, run: RunDirectory | None = None) -> str:
        found: list[str] = []

        def queued() -> bool:
            journal = Journal(run or self.run)
            told = Chain.of(journal.read()).attempt(attempt) if journal.exists() else None
            found[:] = [told.successor] if told is not None and told.successor is not None else []
            return bool(found)

        wait_until(queued, f"attempt {attempt} never queued a successor", PATIENCE_S)
        return found[0]

    def wait_ends(self, *causes: Cause) -> None:
        wait_until(
            lambda: self.causes == list(causes),
            lambda: f"{self.causes}; {self.run.journal.read_text()[-3000:]}; {self.outputs()[-3000:]}",
            PATIENCE_S,
        )

    def outputs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.out")))

    def waiting(self) -> list[str]:
        return self.jobs.ask("squeue", "-h", "-t", "PENDING", "-o", "%i").out.split()

    def inherited(self, job: str) -> dict[str, str]:
        pairs = (self.folder / f"env-{job}").read_text().split("\0")
        return dict(pair.partition("=")[::2] for pair in pairs if pair)

    def ended(self, attempt: int) -> Attempt:
        return self.attempts[attempt - 1]
