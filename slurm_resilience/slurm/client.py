"""What we ask of Slurm: one Protocol of the verbs needed.

Every implementation passes tests/contract/test_slurm_client.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NewType, Protocol

JobRef = NewType("JobRef", str)
"""A job as Slurm's commands must be told of it: `123`, or `123_4` for an array element.

Never the bare SLURM_JOB_ID of an array element: the last element's id is the id of the whole array."""


class JobState(enum.Enum):
    """Base states of Slurm, and what each means for us."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN = "UNKNOWN"  # not listed, or a word we don't know: never "finished"


@dataclass(frozen=True, slots=True)
class JobRecord:
    job: JobRef
    state: JobState
    completing: bool
    held: bool
    reason: str
    restarts: int
    requeue: bool
    """Whether Slurm may requeue it at all."""
    batch: bool
    start_s: float | None
    end_s: float | None
    """Seconds since the epoch; None: unlimited or unknown. Slurm moves it when a grace period starts."""
    preempted_s: float | None
    """When a preemption of the running attempt began; None: none did."""
    partition: str
    nodes: str
    batch_host: str
    exit_code: int | None
    exit_signal: int | None


@dataclass(frozen=True, slots=True)
class SlurmConfiguration:
    version: str
    cluster: str
    kill_wait_s: int
    job_requeue: bool
    preempt_mode: str
    proctrack: str
    over_time_limit_s: int | None
    requeue_exit: tuple[int, ...]
    max_batch_requeue: int | None


class SlurmClient(Protocol):
    """Each verb raises SlurmUnavailable (no answer: may be retried), SlurmRejected or SlurmUnparsable."""

    def job(self, job: JobRef) -> JobRecord | None:
        """None: the controller answered and doesn't know such a job. That is not 'finished'."""

    def configuration(self) -> SlurmConfiguration: ...

    def grace_time_s(self, partition: str) -> int:
        """The partition's GraceTime, in seconds; 0 where it has none."""

    def requeue(self, job: JobRef) -> None:
        """Ask for the job to be queued again. SlurmRejected where it already is pending."""
