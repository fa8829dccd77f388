"""Check `gpu-processes`: nobody else is on the GPUs of the job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slurm_resilience.preflight.check import Context, Tell
from slurm_resilience.preflight.checks.gpu.device import DriverMissing, Gpu
from slurm_resilience.preflight.checks.gpu.expected import chosen, expected, surely_ours
from slurm_resilience.preflight.checks.gpu.health import Opener
from slurm_resilience.preflight.checks.gpu.nvml import Nvml
from slurm_resilience.preflight.checks.gpu.verdict import LEAVE_OUT, name_of
from slurm_resilience.preflight.checks.processes import job_of, process_of
from slurm_resilience.preflight.checks.summary import summed_up
from slurm_resilience.preflight.result import Finding, Problem, fail, skipped, warn
from slurm_resilience.size import size_text

_TRIES = 3
_BETWEEN_TRIES_S = 0.7
"""A job that has just ended leaves its memory a moment later (gcm waits 3 times, too)."""
_EMPTY_BYTES = 15 << 20
"""gcm's: what a card that nobody uses may hold."""
_SHARED = ("SLURM_SHARDS_ON_NODE", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
"""Set where others may be on the same GPU, rightly."""


@dataclass(frozen=True, slots=True)
class Tenant:
    gpu: str
    pid: int
    name: str | None
    """None: it can't be seen from here, in another container."""
    user: int | None
    job: str | None


def gpu_processes(
    context: Context, tell: Tell, opener: Opener = Nvml, sleep: Callable[[float], None] = time.sleep
) -> Iterable[Finding]:
    own_job = context.environment.get("SLURM_JOB_ID")
    shared = [name for name in _SHARED if name in context.environment]
    if shared:
        return [skipped(f"the GPUs are shared with others ({shared[0]} is set)")]
    if expected(context) == 0:
        return [skipped("no GPU is expected here")]
    gpus: tuple[Gpu, ...] = ()
    tenants: list[Tenant] = []
    tell("asking NVIDIA's driver who is on the GPUs")
    try:
        with opener() as driver:
            for tried in range(_TRIES):
                gpus = chosen(driver.gpus(), context)
                tenants = _tenants(context, gpus, own_job)
                if not surely_ours(gpus, context):
                    break
                if not tenants and not any(map(_filled, gpus)):
                    break
                if tried + 1 < _TRIES:
                    sleep(_BETWEEN_TRIES_S)
    except DriverMissing as missing:
        return [skipped(f"there are no GPUs to ask: {missing}")]
    if not gpus:
        return [skipped("there are no GPUs")]
    if not surely_ours(gpus, context):
        return [skipped("Slurm doesn't say which GPUs are this job's")]
    problems = [_of_tenant(tenant, own_job) for tenant in tenants]
    if not tenants:
        problems = [_of_memory(gpu) for gpu in gpus if _filled(gpu)]
    used = [gpu.used_bytes for gpu in gpus if gpu.used_bytes is not None]
    return summed_up(problems, "nobody else is on them", {"used_bytes": sum(used) if used else None})


def _tenants(context: Context, gpus: Sequence[Gpu], own_job: str | None) -> list[Tenant]:
    found = []
    for gpu in gpus:
        # Of a partitioned card a slice is the job's: who privileged asks is told who is on the others, too.
        for user in () if gpu.partitioned else gpu.users or ():
            process = process_of(context.root, user.pid)
            job = job_of(context.root, user.pid)
            if own_job is not None and job == own_job:
                continue  # another step of this job is no stranger
            name, owner = (None, None) if process is None else (process.name, process.user)
            found.append(Tenant(name_of(gpu), user.pid, name, owner, job))
    return found


def _filled(gpu: Gpu) -> bool:
    return not gpu.partitioned and gpu.used_bytes is not None and gpu.used_bytes > _EMPTY_BYTES and not gpu.users


def _of_tenant(tenant: Tenant, own_job: str | None) -> Finding:
    what = f"process {tenant.pid}" + (f" ({tenant.name})" if tenant.name else "")
    of_job = f" of job {tenant.job}" if tenant.job else ""
    if tenant.user == os.getuid():
        sentence, problem = f"{tenant.gpu} is used by your own {what}{of_job}", Problem.USER
        remedy = f"end it: scancel {tenant.job}" if tenant.job else f"end it on that node: kill {tenant.pid}"
    else:
        whose = "" if tenant.user is None else f", which belongs to user {tenant.user}"
        sentence, problem = f"{tenant.gpu} is used by {what}{of_job}{whose}", Problem.NODE
        remedy = LEAVE_OUT
    # Without Slurm nobody has given the GPUs to anyone.
    return (warn if own_job is None else fail)(problem, sentence, remedy)


def _of_memory(gpu: Gpu) -> Finding:
    used = size_text(gpu.used_bytes or 0)
    return warn(
        Problem.NODE,
        f"{name_of(gpu)}: {used} of its memory are in use, and no process to be seen has them",
        f"if it stays so, {LEAVE_OUT}",
    )
