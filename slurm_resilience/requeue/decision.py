"""Whether a run goes on, and how. Pure: diagnosis and history in, what and why out."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Union

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.triage.diagnosis import Diagnosis


class Way(enum.Enum):
    """How this attempt could be followed by another: depends on what it runs in.

    REQUEUE   a batch job that Slurm may requeue: `scontrol requeue`
    CHAIN     a batch job with a successor that is queued beside it and starts when it is over
    IN_PLACE  the supervisor starts the next attempt itself (local mode, an allocation that is still ours)
    NONE      only a person can start the next attempt
    """

    REQUEUE = "requeue"
    CHAIN = "successor"
    IN_PLACE = "restart"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class History:
    """What came before, this attempt included."""

    attempts_without_progress: int
    crashes_since_progress: int


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str


@dataclass(frozen=True, slots=True)
class Requeue:
    reason: str


@dataclass(frozen=True, slots=True)
class Successor:
    """The successor's job goes on; it must be there."""

    reason: str


@dataclass(frozen=True, slots=True)
class Restart:
    reason: str


@dataclass(frozen=True, slots=True)
class AlreadyQueued:
    """Slurm will start the next attempt without our doing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str


Decision = Union[Finish, Requeue, Successor, Restart, AlreadyQueued, Stop]


def word_for(decision: Decision) -> str:
    """The decision as one word for the journal."""
    match decision:
        case Finish():
            return "finish"
        case Requeue():
            return "requeue"
        case Successor():
            return "successor"
        case Restart():
            return "restart"
        case AlreadyQueued():
            return "leave"
        case Stop():
            return "stop"


def _go_on(reason: str, way: Way) -> Decision:
    match way:
        case Way.REQUEUE:
            return Requeue(reason)
        case Way.CHAIN:
            return Successor(reason)
        case Way.IN_PLACE:
            return Restart(reason)
        case Way.NONE:
            return Stop(f"{reason}; only a batch job with --requeue can be queued again: start it again to go on")


def decide(diagnosis: Diagnosis, history: History, *, way: Way, limits: Limits, queued_by_slurm: bool) -> Decision:
    """What to do now that the attempt is over. `queued_by_slurm`: Slurm's record shows that it did so itself."""
    because = diagnosis.because
    spent: str | None
    match diagnosis.cause:
        case Cause.FINISHED:
            return Finish(because)
        case Cause.CANCELLED | Cause.OPERATOR_STOP | Cause.FENCED:
            return Stop(because)
        case Cause.REQUEUED_BY_HAND:
            return AlreadyQueued(because)
        case Cause.PREEMPTED:
            return AlreadyQueued(because) if queued_by_slurm else _go_on(because, way)  # somebody's turn: costs no try
        case Cause.TIME_LIMIT | Cause.NODE_FAILURE | Cause.WARNED | Cause.SUPERVISOR_DIED:
            spent = None
        case Cause.CRASHED | Cause.OUT_OF_MEMORY | Cause.UNKNOWN:
            spent = _crashes_spent(history, limits)
    if queued_by_slurm:
        return AlreadyQueued(because)
    if history.attempts_without_progress >= limits.attempts_without_progress:
        return Stop(f"{history.attempts_without_progress} attempts in a row gained no step; the last: {because}")
    if spent is not None:
        return Stop(f"{spent}; the last: {because}")
    return _go_on(because, way)


def _crashes_spent(history: History, limits: Limits) -> str | None:
    if history.crashes_since_progress < limits.crashes:
        return None
    return f"{history.crashes_since_progress} crashes since the last progress"
