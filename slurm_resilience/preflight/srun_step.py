"""Preflight's step under Slurm: srun's words, its environment, and what it complains about."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_line import srun_environment
from slurm_resilience.preflight.step import Launch, PipedStep, Step
from slurm_resilience.preflight.way import Way

_OURS_TO_SAY = frozenset(
    "SLURM_LABELIO SLURM_STDINMODE SLURM_STDOUTMODE SLURM_STDERRMODE SLURM_UNBUFFEREDIO "
    "SLURM_SRUN_REDUCE_TASK_EXIT_MSG SLURM_DEBUG SRUN_DEBUG SLURM_HOSTFILE SLURM_RELATIVE SLURM_EXACT SLURM_EXCLUSIVE "
    "SLURM_GPUS SLURM_MPI_TYPE".split()
)
"""What srun would obey, about how its channel looks and where its tasks go; SLURM_GPUS counts those of all nodes."""
_OF_AN_OUTER_STEP = ("SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_STEP_")
"""Beginnings of what srun tells its tasks and would believe itself."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What to ask of srun."""

    way: Way
    program: tuple[str, ...]
    """What runs on each node."""
    nodes: tuple[str, ...] = ()
    """By name; empty: `count` or what the user's words say."""
    count: str | None = None
    """How many nodes, as the user said it."""
    words: tuple[str, ...] = ()
    """The user's, for srun."""
    cpus_per_task: int | None = None
    time_limit_s: float = 60.0


def srun_words(plan: StepPlan, environment: Mapping[str, str]) -> list[str]:
    """The line. The user's words come first: where they contradict ours, srun obeys the last."""
    words = ["srun", "--job-name=preflight"]
    if plan.way is Way.LOGIN and "SLURM_TIMELIMIT" not in environment:
        words.append(f"--time={math.ceil(plan.time_limit_s / 60) + 1}")
    words += plan.words
    count = str(len(plan.nodes)) if plan.nodes else plan.count
    if count is not None:
        words.append(f"--nodes={count}")
    if count is not None and count.isdecimal():
        words.append(f"--ntasks={count}")
    words.append("--ntasks-per-node=1")
    if plan.nodes:
        words.append(f"--nodelist={','.join(plan.nodes)}")
    if plan.way is not Way.LOGIN:
        words.append("--overlap")
        if plan.cpus_per_task is not None:  # the same as the training's step will have
            words.append(f"--cpus-per-task={plan.cpus_per_task}")
    # Neither a node that dies nor one that leaves early may take the others with it.
    words += ["--input=all", "--label", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none"]
    return [*words, *plan.program]


def environment_for(environment: Mapping[str, str]) -> dict[str, str]:
    kept = srun_environment(environment, CommandKind.TORCHRUN)
    return {
        name: value
        for name, value in kept.items()
        if name not in _OURS_TO_SAY and not name.startswith(_OF_AN_OUTER_STEP)
    }


@dataclass(slots=True)
class SrunStep(PipedStep):
    """`SrunStep.of(plan, environment)`"""

    plan: StepPlan = field(default_factory=lambda: StepPlan(Way.JOB, ()))
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: StepPlan, environment: Mapping[str, str]) -> SrunStep:
        launch = Launch(tuple(srun_words(plan, environment)), environment_for(environment))
        queues = plan.way is Way.LOGIN
        return cls((launch,), nodes=plan.nodes, queues=queues, plan=plan, environment=environment)

    def without(self, nodes: Collection[str]) -> Step | None:
        left = tuple(node for node in self.nodes if node not in nodes)
        if not left or len(left) == len(self.nodes) or self.plan.way is Way.LOGIN:
            return None
        return SrunStep.of(replace(self.plan, nodes=left), self.environment)


_NOT_LAUNCHED = re.compile(r"srun: error: Task launch for \S+ failed on node (\S+): (.+)")
_NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+)")
_TASK_ENDED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.+)")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What srun says of one node."""

    node: str
    why: str
    launch: bool
    """Whether its task was never started: srun gives up the whole step then."""


def complaint_in(line: str) -> Complaint | None:
    """Pure. One node at a time: with one task on each, srun's lists have one entry or name more than one node."""
    if match := _NOT_LAUNCHED.search(line):
        return Complaint(match.group(1), f"srun could not start its task: {match.group(2)}", launch=True)
    if match := _NODE_FAILED.search(line):
        return Complaint(match.group(1), "Slurm says that the node has failed", launch=False)
    if match := _TASK_ENDED.search(line):
        return Complaint(match.group(1), f"its process ended: {match.group(3).strip()}", launch=False)
    return None


def last_word(lines: Sequence[str]) -> str | None:
    """srun's last complaint, for when nothing else is known."""
    errors = [line.partition("error:")[2].strip() for line in lines if "error:" in line]
    said = errors or [line.strip() for line in lines if line.strip()]
    return said[-1] if said else None
