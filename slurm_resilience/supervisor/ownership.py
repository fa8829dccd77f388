"""Whose run it is: what Slurm knows of an owner that can't be seen from this host."""

from __future__ import annotations

from slurm_resilience.errors import SlurmError
from slurm_resilience.manifest.lease import Owner
from slurm_resilience.process_identity import Liveness
from slurm_resilience.slurm.client import JobRef, JobState, PastLife, SlurmClient

OVER = (
    JobState.COMPLETED,
    JobState.CANCELLED,
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.NODE_FAIL,
    JobState.BOOT_FAIL,
    JobState.DEADLINE,
    JobState.OUT_OF_MEMORY,
    JobState.PREEMPTED,  # for good: one that goes on is pending
)


def _is_over(lives: tuple[PastLife, ...] | None, owner: Owner) -> bool:
    """Whether accounting has the owner's life and its end, and no later one that goes on."""
    if lives is None or len(lives) <= (owner.restart_count or 0):
        return False
    return all(life.state in OVER and life.end_s is not None for life in lives[owner.restart_count or 0 :])


def liveness_by_slurm(
    slurm: SlurmClient | None, owner: Owner, cluster: str | None, take_over: bool, *, followed: str | None = None
) -> Liveness:
    """GONE only where Slurm proves it: the job is over, or lives on as a later attempt of its own.

    `take_over`: a person has given their word that the owner is gone; it stands for what nobody can prove, never
    against an owner that is seen to live. `followed`: the job whose end Slurm itself has waited for before it started
    us; that it doesn't know that one any more is no riddle then (it forgets a job five minutes after its end).
    """
    unproven = Liveness.GONE if take_over else Liveness.UNKNOWN
    if slurm is None or owner.job is None or owner.cluster != cluster:
        return unproven
    try:
        record = slurm.job(JobRef(owner.job))
        if record is None:  # purged, or never heard of: not the same as ended
            known_over = owner.job == followed or _is_over(slurm.lives(JobRef(owner.job)), owner)
            return Liveness.GONE if known_over else unproven
    except SlurmError:
        return unproven
    if record.restarts > (owner.restart_count or 0) and record.state is JobState.RUNNING:
        return Liveness.GONE
    if record.restarts > (owner.restart_count or 0) and not record.completing:
        return Liveness.GONE  # queued again, and nothing of it runs any more
    if record.state in OVER and not record.completing:
        return Liveness.GONE
    return Liveness.ALIVE if record.state in (JobState.RUNNING, JobState.SUSPENDED) else unproven
