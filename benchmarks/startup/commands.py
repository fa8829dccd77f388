"""How long the command line takes to answer, beside what the interpreter alone takes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.figures import Figure, figure
from benchmarks.report import REPOSITORY

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "slurm-resilience --version": ["-m", "slurm_resilience.cli.main", "--version"],
    "srun-resilient --help": ["-m", "slurm_resilience.cli.srun_resilient", "--help"],
    "srun-resilient --dry-run": ["-m", "slurm_resilience.cli.srun_resilient", "--dry-run", "--mode=local", "true"],
}


@dataclass(frozen=True)
class Answer:
    """Milliseconds."""

    wall: Figure
    cpu: Figure
    """Of the processor, user's and system's: what a busy machine stretches least."""


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer_times(rounds: int) -> dict[str, Answer]:
    """One command after the other in each round. The first round, which warms the files, is left out."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    wall_ms: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu_ms: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(rounds + 1):
        for name, words in COMMANDS.items():
            began_s, used_s = time.perf_counter(), _cpu_s()
            subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
            if number:
                wall_ms[name].append(1000 * (time.perf_counter() - began_s))
                cpu_ms[name].append(1000 * (_cpu_s() - used_s))
    return {name: Answer(figure(wall_ms[name]), figure(cpu_ms[name])) for name in COMMANDS}
