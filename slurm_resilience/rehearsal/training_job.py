"""One demonstration training, started as a user would start it, and watched through its run directory."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from slurm_resilience.errors import ConfigurationError, ResilienceError
from slurm_resilience.manifest.agent_record import read_agent_record
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory

EPOCHS = 4
STEPS = 24 * EPOCHS
"""1500 digits in batches of 16 on 4 ranks are 24 steps an epoch."""
STEP_SECONDS = 0.15

BATCH_SCRIPT = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={folder}/{name}.out
exec {command}
"""


def example(name: str) -> Path:
    """An example as shipped. Raises ConfigurationError where the package came without."""
    path = Path(str(resources.files("slurm_resilience") / "examples" / name))
    if not path.is_file():
        raise ConfigurationError(f"the example {name} is missing from this installation: {path}")
    return path


def missing_packages() -> list[str]:
    """What the example imports and isn't installed here."""
    import importlib.util

    return [name for name in ("torch", "h5py", "numpy", "xxhash", "sklearn") if importlib.util.find_spec(name) is None]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    name: str
    folder: Path

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(self.folder / self.name)

    def command(self, *options: str, nproc_per_node: int = 2) -> list[str]:
        """srun-resilient's command line for this training."""
        return [
            *(sys.executable, "-m", "slurm_resilience.cli.srun_resilient"),
            *(f"--nproc-per-node={nproc_per_node}", f"--run-dir={self.run.path}", *options),
            *(sys.executable, str(example("digits.py")), f"--epochs={EPOCHS}", "--batch-size=16"),
            *(f"--step-seconds={STEP_SECONDS}", "--save-every-steps=20"),
        ]

    def batch_script(self) -> str:
        return BATCH_SCRIPT.format(name=self.name, folder=self.folder, command=shlex.join(self.command()))

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """One thread a rank: this machine is a whole cluster today."""
        return {**inherited, "OMP_NUM_THREADS": "1"}

    def chain(self) -> Chain | None:
        """None: it hasn't begun."""
        try:
            journal = Journal(self.run)
            return Chain.of(journal.read()) if journal.exists() else None
        except ResilienceError:
            return None

    def step(self, chain: Chain | None) -> int:
        """The last step anybody has told of, as its agents saw it a few seconds ago."""
        if chain is None or chain.newest_attempt is None:
            return 0
        steps = [chain.next_step]
        for path in self.run.agent_records(chain.newest_attempt.number):
            record = read_agent_record(path)
            if record is not None:
                steps += [rank.step for rank in record.ranks]
        return max(steps)

    def output(self) -> str:
        path = self.folder / f"{self.name}.out"
        return path.read_text(errors="replace") if path.exists() else ""
