"""From where preflight was called, and so how it gets at its nodes. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_resilience.environment_variable import first_number
from slurm_resilience.errors import ConfigurationError

_NO_STEPS = frozenset({"4294967290", "4294967291"})
"""The ids of what is called a step and is none: salloc's interactive one, and the batch script."""


class Way(enum.Enum):
    JOB = "in a job"  # a batch script, or salloc's shell: srun makes a step of it
    STEP = "in a step"  # task 0 makes another one beside it, on the same nodes
    LOGIN = "on a login node"  # srun gets the nodes
    LOCAL = "on this machine"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Slurm says about where we are."""

    way: Way
    nodes: str = ""
    """Slurm's list of them, `n[1-4]`; empty: not known yet."""
    first: bool = True
    """Whether this process is the one that does it, of all tasks of a step."""
    cpus_per_node: int | None = None
    """Of the job, on that of its nodes which has the fewest."""


def surroundings(
    environment: Mapping[str, str], *, mode: str, nodes: str | None, words: Sequence[str], srun_found: bool
) -> Surroundings:
    """`nodes` and `words`: what the user asks of srun. Raises ConfigurationError for what can't be had here."""
    if mode == "local":
        if nodes or words:
            raise ConfigurationError("--mode=local looks at this machine: --nodes and srun's options don't go with it")
        return Surroundings(Way.LOCAL)
    job = environment.get("SLURM_JOB_ID")
    if job:
        if environment.get("SLURM_HET_SIZE"):
            raise ConfigurationError(f"job {job} is heterogeneous, which is not supported")
        here = _in_job(environment)
        # Of a step, the other tasks say nothing: one sentence of the first is enough.
        if not srun_found and here.first:
            raise ConfigurationError(
                f"job {job} is a Slurm job, but there is no srun on PATH; --mode=local looks at this node alone"
            )
        return here
    if (nodes or words or mode == "slurm") and not srun_found:
        raise ConfigurationError("there is no srun on PATH: is this a host of the cluster?")
    return Surroundings(Way.LOGIN if nodes or words or mode == "slurm" else Way.LOCAL)


def _in_job(environment: Mapping[str, str]) -> Surroundings:
    of_job = environment.get("SLURM_JOB_NODELIST", "")
    cpus = fewest(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    if environment.get("SLURM_STEP_ID", "4294967291") in _NO_STEPS:
        return Surroundings(Way.JOB, of_job, cpus_per_node=cpus)
    first = environment.get("SLURM_PROCID", "0") == "0"
    return Surroundings(Way.STEP, environment.get("SLURM_STEP_NODELIST") or of_job, first, cpus)


def fewest(counts: str) -> int | None:
    """Of Slurm's `8(x2),4`: 4. None: there is no number in it."""
    heads = [part.partition("(")[0] for part in counts.split(",")]
    return min((int(head) for head in heads if head.isdecimal() and int(head) > 0), default=None)


def job_of(environment: Mapping[str, str]) -> tuple[str | None, int]:
    """The job as Slurm's commands want it, `12` or `77_4`, and how often it was started again. (None, 0): no job."""
    job = environment.get("SLURM_JOB_ID") or None
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    if job and array and task:
        job = f"{array}_{task}"
    return job, (first_number(environment, "SLURM_RESTART_COUNT") or 0) if job else 0
