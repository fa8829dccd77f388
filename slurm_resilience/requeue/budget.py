"""What is counted since a run's last progress, and which end counts for what. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.limits import Limits


class Budget(enum.Enum):
    """One for each of the limits; the value is how a sentence counts it: "crash 2 of 3"."""

    WITHOUT_PROGRESS = "attempt without progress"
    CRASHES = "crash"
    HANGS = "hang"
    STORAGE_FAULTS = "storage fault"
    OUT_OF_MEMORY = "end for want of memory"
    NODE_FAILURES = "node failure"
    NEVER_STARTED = "failed start"
    QUARANTINES = "quarantine"


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a budget is used since the last progress."""

    budget: Budget
    used: int
    limit: int

    @property
    def spent(self) -> bool:
        return self.used >= self.limit

    def __str__(self) -> str:
        if self.budget is Budget.WITHOUT_PROGRESS:
            return f"attempt {self.used} of {self.limit} without progress"
        return f"{self.budget.value} {self.used} of {self.limit} since the last progress"


def budget_of(cause: Cause) -> Budget | None:
    """The budget of its own that an end by `cause` uses up, besides that of attempts without progress.

    None: it has none. A time limit or a warning costs nothing as long as the run gains steps; a person's word is
    obeyed and not counted.
    """
    match cause:
        case Cause.CRASHED | Cause.UNKNOWN:
            return Budget.CRASHES
        case Cause.HUNG:
            return Budget.HANGS
        case Cause.STORAGE:
            return Budget.STORAGE_FAULTS
        case Cause.OUT_OF_MEMORY:
            return Budget.OUT_OF_MEMORY
        case Cause.NODE_FAILURE:
            return Budget.NODE_FAILURES
        case Cause.LAUNCH_FAILED | Cause.NEVER_STARTED:
            return Budget.NEVER_STARTED
        case Cause.TIME_LIMIT | Cause.WARNED | Cause.SUPERVISOR_DIED:
            return None
        case Cause.PREEMPTED | Cause.REQUEUED_BY_HAND:
            return None
        case (
            Cause.FINISHED
            | Cause.CANCELLED
            | Cause.CANCELLED_BY_ADMIN
            | Cause.OPERATOR_STOP
            | Cause.DEPENDENCY_NEVER
            | Cause.PREFLIGHT
            | Cause.FENCED
        ):
            return None


def limit_of(limits: Limits, budget: Budget) -> int:
    match budget:
        case Budget.WITHOUT_PROGRESS:
            return limits.attempts_without_progress
        case Budget.CRASHES:
            return limits.crashes
        case Budget.HANGS:
            return limits.hangs
        case Budget.STORAGE_FAULTS:
            return limits.storage_faults
        case Budget.OUT_OF_MEMORY:
            return limits.out_of_memory
        case Budget.NODE_FAILURES:
            return limits.node_failures
        case Budget.NEVER_STARTED:
            return limits.never_started
        case Budget.QUARANTINES:
            return limits.quarantines
