"""A canary's own batch job, where it is preempted: the long job waits for one that passes, not for one that ran."""

from __future__ import annotations

from collections.abc import Callable

from slurm_resilience.errors import SlurmError
from slurm_resilience.slurm.client import JobRef, SlurmClient


def queue_again_if_preempted(slurm: SlurmClient, job: JobRef, say: Callable[[str], None]) -> bool:
    """Whether it was. A job that leaves by itself within its grace is not queued again by Slurm before 24.05
    (docs/causes.md), and what depends on it would be cancelled. Never raises: somebody submits it again then."""
    try:
        record = slurm.job(job)
        if record is None or record.preempted_s is None or not record.requeue:
            return False
        say(f"job {job} is being preempted: it is queued again, and begins anew")
        slurm.requeue(job)
    except SlurmError as error:
        say(f"job {job} can't be queued again: {error}")
        return False
    return True
