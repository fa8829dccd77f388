"""What we ask of Slurm: one Protocol of the verbs needed.

Every implementation passes tests/contract/test_slurm_client.py.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
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
    qos: str = ""
    dependency: str = ""
    """As Slurm writes it: `afterany:123(unfulfilled)`; empty: none."""
    comment: str = ""
    """The user may write into it: only ever searched for a token of ours."""


@dataclass(frozen=True, slots=True)
class PastLife:
    """One life of a job, from its queueing to its end, as accounting keeps it."""

    state: JobState
    cancelled_by: int | None
    """The user id of who cancelled it; None: nobody did, or it isn't said."""
    exit_code: int | None
    exit_signal: int | None
    start_s: float | None
    """None: it never started."""
    end_s: float | None
    nodes: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeRecord:
    name: str
    states: tuple[str, ...]
    """The base state first, then the flags: `DOWN`, `DRAIN`, `NOT_RESPONDING`."""
    reason: str
    """Why it is down or drained, as who did it has written; empty: no reason."""


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    name: str
    grace_time_s: int
    preempt_mode: str
    """REQUEUE, CANCEL, SUSPEND or OFF; combinations as Slurm writes them (`GANG,SUSPEND`)."""
    over_time_limit_s: int | None
    """None: the cluster's."""
    max_time_s: int | None
    """None: unlimited."""


@dataclass(frozen=True, slots=True)
class QosRecord:
    name: str
    grace_time_s: int
    preempt_mode: str
    """`cluster` where it is the cluster's."""


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
    preempt_type: str = ""
    """`preempt/qos`: grace times are the QOS's; `preempt/partition_prio`: the partition's."""
    user_signal_first: bool = False
    """PreemptParameters=send_user_signal: a preemption sends the job's own --signal, and then no SIGTERM."""
    accounting: bool = False
    """Whether there is a database that sacct can ask."""
    requeue_delay_s: int = 121
    """How long Slurm holds a requeued batch job back: cred_expire + 1 s, or SchedulerParameters=requeue_delay."""
    requeue_exit_hold: tuple[int, ...] = ()

    @property
    def release(self) -> tuple[int, int]:
        """(22, 5) of `22.05.8`; (0, 0) of what is no version: older than everything."""
        major, _, rest = self.version.partition(".")
        minor = rest.partition(".")[0]
        return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch job to be queued."""

    script: str
    """The text of its batch script."""
    options: tuple[str, ...]
    """Of sbatch, each `--name=value` or `--name`; they outrank the script's #SBATCH lines."""
    environment: Mapping[str, str]
    """All that sbatch is given; the job inherits it."""


class SlurmClient(Protocol):
    """Each verb raises SlurmUnavailable (no answer: may be retried), SlurmRejected or SlurmUnparsable.

    A verb that was refused has changed nothing. One that got no answer may have been done all the same.
    """

    def job(self, job: JobRef) -> JobRecord | None:
        """None: the controller answered and doesn't know such a job. That is not 'finished'."""

    def my_jobs(self) -> tuple[JobRecord, ...]:
        """All jobs of this user that the controller remembers, ended ones too; array elements one by one."""

    def lives(self, job: JobRef) -> tuple[PastLife, ...] | None:
        """Every life of the job, the oldest first, as accounting has it; None: there is no accounting to ask."""

    def configuration(self) -> SlurmConfiguration: ...

    def partition(self, name: str) -> PartitionRecord: ...

    def qos(self, name: str) -> QosRecord | None:
        """None: there is no accounting to ask, or it knows no such QOS."""

    def nodes(self, names: str) -> tuple[NodeRecord, ...]:
        """`names` as Slurm writes them: `n[1-4]`."""

    def answers(self) -> bool:
        """Whether a controller answers at all. Never raises."""

    def requeue(self, job: JobRef) -> None:
        """Ask for the job to be queued again. SlurmRejected where it already is pending."""

    def requeue_hold(self, job: JobRef) -> None:
        """As `requeue`, but it waits until somebody releases it. It is the user's hold: they may do so themselves."""

    def cancel(self, job: JobRef) -> None:
        """End the job or take it out of the queue. No error where it is over already."""

    def signal(self, job: JobRef, name: str, *, to: str) -> None:
        """Send `name` (`USR1`) to `to`: `steps` (all of them, not the batch shell), `batch` (the shell alone) or the
        number of one step.

        Never SIGTERM, SIGHUP or SIGQUIT to everything at once: srun makes SIGKILL of them for its tasks.
        """

    def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
        """Of a pending job: `nodes` and those excluded before. SlurmRejected where it runs."""

    def start_now(self, job: JobRef) -> None:
        """Of a pending job: take back the delay after a requeue."""

    def depend_on(self, job: JobRef, dependency: str) -> None:
        """Of a pending job: `afterany:123`; empty takes every dependency away."""

    def may_requeue(self, job: JobRef, allowed: bool) -> None:
        """Whether Slurm may queue the job again by itself: after a preemption, a node failure."""

    def batch_script(self, job: JobRef) -> str:
        """The text of the job's batch script as it was submitted."""

    def asked_for(self, job: JobRef) -> tuple[str, ...]:
        """The sbatch options by which another job asks for what this one was given.

        Partition, account, QOS, times, nodes, tasks, memory, devices, licenses, features, folder, output files, name,
        comment, requeue; without dependency, array, start time and the nodes that it happens to run on.
        """

    def submit(self, submission: Submission) -> JobRef:
        """Queue a batch job. After SlurmUnavailable it may be queued or not: look before trying again."""
