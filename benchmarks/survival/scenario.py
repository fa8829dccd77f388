"""What is run, and what is done to it."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scratch_cluster import SRUN_RESILIENT, TORCHRUN

PROGRAMS = Path(__file__).with_name("programs")
EPOCHS = 10
STEP_S = 0.2
SAVE_EVERY = 30
PREEMPT_AFTER_S = 20.0


class Tool(enum.Enum):
    """Who is to bring the training through; the value stands in the table."""

    TORCHRUN = "torchrun + handler in train.py (the tutorials)"
    TORCHRUN_NO_WORKERS = "the same, without DataLoader workers"
    SRUN = "srun python + handler, save, exit 0"
    OURS = "srun-resilient"

    @property
    def is_ours(self) -> bool:
        return self is Tool.OURS


class Trouble(enum.Enum):
    """The time limit is the shortest there is, a minute. Slurm looks every 30 s, and warns up to 30 s too early: with
    @10, 20 to 50 s after the start. With more, a slow start is not over when the warning comes."""

    NONE = "undisturbed"
    PREEMPTED = "preemption"
    TIME_LIMIT = "time limit, --signal=USR1@10"
    TIME_LIMIT_UNWARNED = "time limit, no --signal"


@dataclass(frozen=True)
class Scenario:
    tool: Tool
    trouble: Trouble


SCENARIOS = (
    *(Scenario(tool, trouble) for tool in Tool for trouble in (Trouble.PREEMPTED, Trouble.TIME_LIMIT)),
    Scenario(Tool.OURS, Trouble.TIME_LIMIT_UNWARNED),
)


def batch_script(scenario: Scenario, port: int) -> str:
    """As the tutorials have it; ours as our README has it. `port` is for who needs to be told where the ranks meet."""
    signal = {
        Trouble.TIME_LIMIT: "#SBATCH --time=1 --signal=USR1@10\n",
        Trouble.TIME_LIMIT_UNWARNED: "#SBATCH --time=1\n",
        Trouble.PREEMPTED: "" if scenario.tool.is_ours else "#SBATCH --signal=USR1@60\n",
        Trouble.NONE: "",
    }[scenario.trouble]
    step_s = 0.0 if scenario.trouble is Trouble.NONE else STEP_S
    workers = 0 if scenario.tool is Tool.TORCHRUN_NO_WORKERS else 2
    arguments = f"--epochs {EPOCHS} --workers {workers} --step-seconds {step_s:g} --save-every {SAVE_EVERY}"
    return f"#!/bin/bash\n#SBATCH --requeue\n{signal}{_launch(scenario.tool, port)} {arguments}\n"


def _launch(tool: Tool, port: int) -> str:
    python = sys.executable
    match tool:
        case Tool.TORCHRUN | Tool.TORCHRUN_NO_WORKERS:
            # The nodes are one machine, and their names don't resolve: the first node is 127.0.0.1.
            return (
                f"srun {TORCHRUN} --nnodes=2 --nproc-per-node=1 --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d"
                f" --rdzv-endpoint=127.0.0.1:{port} --local-addr=127.0.0.1 {PROGRAMS / 'tutorial.py'}"
            )
        case Tool.SRUN:
            return (
                f"export MASTER_ADDR=127.0.0.1 MASTER_PORT={port}\n"
                f"srun --ntasks-per-node=1 {python} {PROGRAMS / 'tutorial.py'}"
            )
        case Tool.OURS:
            return f"exec {SRUN_RESILIENT} --run-dir=run --nproc-per-node=1 {python} {PROGRAMS / 'ours.py'}"
