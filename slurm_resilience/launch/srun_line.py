"""The exact srun line of an attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_options import SrunLine

_LAYOUT = ("nodes", "ntasks", "ntasks-per-node", "kill-on-bad-exit", "wait", "cpus-per-task", "gpus-per-task")
"""What the wrapper decides for torchrun: one task a node, with everything the node has for us."""

_LEFT_BEHIND = frozenset(
    "SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE SLURM_DISTRIBUTION SLURM_NTASKS_PER_GPU "
    "SLURM_GPUS_PER_TASK SLURM_CPUS_PER_TASK SRUN_CPUS_PER_TASK SLURM_KILL_BAD_EXIT SLURM_WAIT SLURM_NTASKS_PER_SOCKET "
    "SLURM_TRES_PER_TASK".split()
)
"""The job's layout, which srun would obey: the ranks are torchrun's business, so the step has one task a node."""


@dataclass(frozen=True, slots=True)
class Layout:
    nodes: int
    cpus_per_task: int | None
    wait_s: int = 60


def srun_argv(line: SrunLine, layout: Layout, *, kind: CommandKind, command: tuple[str, ...]) -> list[str]:
    """srun's words. A plain command keeps the user's layout; torchrun gets one task a node.

    `--kill-on-bad-exit=0`: an agent that leaves with 75 must not have its peers killed while they save; `--wait` ends a
    step whose last agents hang after the first has gone.
    """
    if kind is CommandKind.TASK:
        given = line.words_without("kill-on-bad-exit")
        return ["srun", *given, "--kill-on-bad-exit=0", *command]
    ours = [f"--nodes={layout.nodes}", f"--ntasks={layout.nodes}", "--ntasks-per-node=1"]
    ours += ["--kill-on-bad-exit=0", f"--wait={layout.wait_s}"]
    if layout.cpus_per_task is not None:
        ours.append(f"--cpus-per-task={layout.cpus_per_task}")
    return ["srun", *line.words_without(*_LAYOUT), *ours, *command]


def srun_environment(environment: Mapping[str, str], kind: CommandKind) -> dict[str, str]:
    """The environment for srun. For torchrun without what would lay the step out like the job."""
    if kind is CommandKind.TASK:
        return {name: value for name, value in environment.items() if name != "SLURM_KILL_BAD_EXIT"}
    return {name: value for name, value in environment.items() if name not in _LEFT_BEHIND}
