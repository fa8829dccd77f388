"""The lines of the manifest, one frozen class a kind.

A record is a fact with a time; it is never changed, only followed by another. `kind` names the class in the file.
Format 1. A reader refuses a format or a kind that it doesn't know: an unknown fact could be the one that matters.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import NewType, Union

FORMAT = 1

RunId = NewType("RunId", str)
CheckpointId = NewType("CheckpointId", str)
"""`step-0000000120.a3`: the step and the attempt that wrote it."""


def checkpoint_id(step: int, attempt: int, *, final: bool = False) -> CheckpointId:
    """`final`: behind the last step a training may still change its state, so it has a checkpoint of its own."""
    return CheckpointId(f"step-{step:010d}.a{attempt}" + (".final" if final else ""))


def known_metric(value: float | None) -> float | None:
    """`value` as a manifest line can hold it: NaN and infinities say nothing about a state, and JSON has no word for
    them."""
    return float(value) if value is not None and math.isfinite(value) else None


class Cause(enum.Enum):
    """Why an attempt ended. UNKNOWN is never good news: it is treated like a crash that nobody explained."""

    FINISHED = "finished"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    NODE_FAILURE = "node failure"
    WARNED = "warned"  # somebody sent SIGUSR1 or SIGUSR2, and nothing says who
    REQUEUED_BY_HAND = "requeued by hand"
    CANCELLED = "cancelled"  # by its user, or nothing says by whom
    CANCELLED_BY_ADMIN = "cancelled by an admin"
    OPERATOR_STOP = "operator stop"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    HUNG = "hung"  # it ran and made no step
    STORAGE = "storage"  # a file system said no: full, broken, gone
    LAUNCH_FAILED = "launch failed"  # Slurm could not start it on its nodes
    NEVER_STARTED = "never started"  # the job was over before anything of ours ran in it
    DEPENDENCY_NEVER = "dependency never satisfied"
    SUPERVISOR_DIED = "supervisor died"
    PREFLIGHT = "refused by preflight"  # nothing was started: no other node would have helped
    FENCED = "fenced"
    UNKNOWN = "unknown"


class SaveReason(enum.Enum):
    PERIODIC = "periodic"
    STOP = "stop"
    FINAL = "final"
    ASKED = "asked"
    IMPORTED = "imported"  # made of another library's file, by `checkpoints import`


@dataclass(frozen=True, slots=True)
class RunCreated:
    run_id: RunId
    name: str
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    attempt: int
    mode: str
    """batch, allocation, login, local or bare (a run opened outside srun-resilient)."""
    command: tuple[str, ...]
    host: str
    job: str | None = None
    """The job as Slurm's commands want it: `123` or `123_4`."""
    restart_count: int | None = None
    cluster: str | None = None
    nodes: str | None = None
    """The node list as Slurm writes it."""


@dataclass(frozen=True, slots=True)
class AttemptResumed:
    """The ranks of this attempt hold the state of `checkpoint` (None: a fresh start, at step 0)."""

    attempt: int
    checkpoint: CheckpointId | None
    step: int
    world_size: int


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a checkpoint, relative to the run directory."""

    rank: int
    file: str
    bytes: int
    checksum: str
    """`xxh3-128:<hex>:<head bytes>` of the file's head, which holds the checksum of every tensor."""


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    checkpoint: CheckpointId
    step: int
    attempt: int
    reason: SaveReason
    world_size: int
    parts: tuple[Part, ...]
    seconds: float
    """From the decision to save until every part was durable."""
    metric: float | None = None
    """What the training said of this state (see `known_metric`): `--keep-best` compares it."""
    stall_s: float | None = None
    """What this save cost the training: the time it stood still, and by how much it was slowed down."""

    def __post_init__(self) -> None:
        # A loss that has become NaN must never be why its checkpoint can't be committed.
        object.__setattr__(self, "metric", known_metric(self.metric))


@dataclass(frozen=True, slots=True)
class CheckpointStaged:
    """Every part is whole in a second place, which may vanish with its node. Not durable yet: that is `committed`."""

    checkpoint: CheckpointId
    step: int
    attempt: int
    world_size: int
    where: str
    """The second place, as the user named it."""


@dataclass(frozen=True, slots=True)
class CheckpointPublished:
    """A verified copy lies in a third place; what becomes of the one here no longer matters to it."""

    checkpoint: CheckpointId
    where: str
    """A path or URL."""


@dataclass(frozen=True, slots=True)
class CheckpointVerified:
    """Every byte of every part was read and is what was written."""

    checkpoint: CheckpointId
    attempt: int
    """The newest one at that time; 0 before the first."""
    how: str


@dataclass(frozen=True, slots=True)
class CheckpointPinned:
    """A person wants it kept: retention leaves it alone until it is unpinned."""

    checkpoint: CheckpointId
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointUnpinned:
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointDamaged:
    checkpoint: CheckpointId
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointQuarantined:
    """Whole, but attempts die the same way soon after loading it: not loaded again unless a person releases it."""

    checkpoint: CheckpointId
    attempt: int
    """The one whose death gave reason to."""
    why: str


@dataclass(frozen=True, slots=True)
class CheckpointReleased:
    """A person's word that it may be loaded again."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointForgotten:
    """Written before its files are deleted: from here on they are nobody's."""

    checkpoint: CheckpointId
    why: str


@dataclass(frozen=True, slots=True)
class SaveFailed:
    attempt: int
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The first stop request that the supervisor or rank 0 of this attempt learnt of."""

    attempt: int
    reason: str
    because: str


@dataclass(frozen=True, slots=True)
class TrainingFinished:
    """The training loop came to its own end: this run is never started again."""

    attempt: int
    step: int


@dataclass(frozen=True, slots=True)
class SuccessorPlanned:
    """Written before the successor's job is submitted: whoever finds this line alone looks for the job by its token."""

    attempt: int
    token: str
    """Stands in the job's comment."""


@dataclass(frozen=True, slots=True)
class SuccessorQueued:
    """The job that goes on when this attempt's job is over, whatever ends it."""

    attempt: int
    job: str
    """As Slurm's commands want it: `124` or `124_4`."""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """Diagnosis and decision, durable before the decision is carried out."""

    attempt: int
    cause: Cause
    because: str
    evidence: tuple[str, ...]
    decision: str
    """finish, requeue, successor, restart, leave, hold or stop: see requeue/decision.py."""
    decision_reason: str
    command_code: int | None
    step: int | None = None
    """The last step any rank reported as completed, where known."""
    exclude: tuple[str, ...] = ()
    outranked: tuple[str, ...] = ()
    """What other witnesses would have said, and who was believed instead."""
    signature: str | None = None
    """The same for two deaths of one kind: it is how a checkpoint that kills its readers is found out."""


@dataclass(frozen=True, slots=True)
class GoOnAsked:
    """A person's word, after a stop, that the run is to go on all the same: its budgets begin anew."""

    attempt: int
    """The last one before it."""
    by: str


@dataclass(frozen=True, slots=True)
class DecisionCarriedOut:
    attempt: int
    how: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    attempt: int


Record = Union[
    RunCreated,
    AttemptStarted,
    AttemptResumed,
    CheckpointCommitted,
    CheckpointStaged,
    CheckpointPublished,
    CheckpointVerified,
    CheckpointPinned,
    CheckpointUnpinned,
    CheckpointDamaged,
    CheckpointQuarantined,
    CheckpointReleased,
    CheckpointForgotten,
    SaveFailed,
    StopAsked,
    TrainingFinished,
    SuccessorPlanned,
    SuccessorQueued,
    AttemptEnded,
    GoOnAsked,
    DecisionCarriedOut,
    RunFinished,
]


@dataclass(frozen=True, slots=True)
class Line:
    """A record with its place in the journal."""

    seq: int
    time_s: float
    record: Record = field(compare=True)
