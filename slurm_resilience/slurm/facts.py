"""What Slurm tells a process through its environment: the one module that reads SLURM_*.

Facts that bite: SLURM_RESTART_COUNT is unset (not 0) on the first run; the last element of an array has the array's own
id in SLURM_JOB_ID, so that commands must be given `ARRAY_TASK`; SLURM_JOB_END_TIME is missing before 23.x and is never
moved (see docs/slurm_facts.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_resilience.environment_variable import first_number
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.slurm.client import JobRef

_INTERACTIVE_STEP = 0xFFFFFFFA  # the step that salloc's shell runs in with LaunchParameters=use_interactive_step


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The job this process runs in."""

    job: JobRef
    job_id: int
    array_task: int | None
    restart_count: int
    batch: bool
    """Whether this process descends from a batch script, as the environment has it."""
    name: str
    cluster: str | None
    partition: str | None
    nodes: str
    node_count: int
    tasks: int | None
    tasks_per_node: int | None
    cpus_per_node: int | None
    gpus_per_node: int | None
    submit_directory: str | None
    end_s: float | None


def _gpus(environment: Mapping[str, str]) -> int | None:
    count = first_number(environment, "SLURM_GPUS_ON_NODE")
    if count is not None:
        return count
    per_node = environment.get("SLURM_GPUS_PER_NODE", "")  # `4`, `a100:4`, `a100:2,v100:2`
    counts = [part.rpartition(":")[2] for part in per_node.split(",") if part]
    return sum(int(count) for count in counts if count.isdigit()) or None


def job_of(environment: Mapping[str, str]) -> JobRef | None:
    """As Slurm's commands want it, `12` or `77_4`; None outside a job."""
    number = first_number(environment, "SLURM_JOB_ID")
    if number is None:
        return None
    array, task = first_number(environment, "SLURM_ARRAY_JOB_ID"), first_number(environment, "SLURM_ARRAY_TASK_ID")
    return JobRef(f"{array}_{task}" if array is not None and task is not None else str(number))


def job_facts(environment: Mapping[str, str]) -> JobFacts | None:
    """None outside a job. Raises ConfigurationError where a run can't be started from (a step, a heterogeneous job)."""
    job_id, job = first_number(environment, "SLURM_JOB_ID"), job_of(environment)
    if job_id is None or job is None:
        return None
    step = first_number(environment, "SLURM_STEP_ID")
    if step is not None and step != _INTERACTIVE_STEP:
        raise ConfigurationError(
            f"srun-resilient was started inside step {job_id}.{step}: put it in srun's place, not behind it"
        )
    if first_number(environment, "SLURM_HET_SIZE") is not None:
        raise ConfigurationError(f"job {job_id} is heterogeneous, which is not supported")
    end_s = first_number(environment, "SLURM_JOB_END_TIME")
    return JobFacts(
        job=job,
        job_id=job_id,
        array_task=first_number(environment, "SLURM_ARRAY_TASK_ID"),
        restart_count=first_number(environment, "SLURM_RESTART_COUNT") or 0,
        batch=environment.get("ENVIRONMENT") == "BATCH",
        name=environment.get("SLURM_JOB_NAME", ""),
        cluster=environment.get("SLURM_CLUSTER_NAME"),
        partition=environment.get("SLURM_JOB_PARTITION"),
        nodes=environment.get("SLURM_JOB_NODELIST", ""),
        node_count=first_number(environment, "SLURM_JOB_NUM_NODES") or 1,
        tasks=first_number(environment, "SLURM_NTASKS"),
        tasks_per_node=first_number(environment, "SLURM_NTASKS_PER_NODE"),
        cpus_per_node=first_number(environment, "SLURM_JOB_CPUS_PER_NODE"),
        gpus_per_node=_gpus(environment),
        submit_directory=environment.get("SLURM_SUBMIT_DIR"),
        end_s=float(end_s) if end_s else None,
    )
