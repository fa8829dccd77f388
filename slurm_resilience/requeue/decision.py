"""Whether a run goes on, and how. Pure: diagnosis and history in, what and why out."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.budget import Budget, Use
from slurm_resilience.requeue.history import History, uses_of
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.quarantine import Quarantine, Suspicion
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
class Hold:
    """The run does not go on by itself, but Slurm has queued the job already: it must not start it.

    Held as a user's job, so that its owner can release it; a released job is a person's word.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str


Decision = Union[Finish, Requeue, Successor, Restart, AlreadyQueued, Hold, Stop]
GOES_ON = (Requeue, Successor, Restart, AlreadyQueued)
WITHDRAWN = "not done: "
"""How the carrying out of a decision begins that a person's later word has overtaken."""


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
        case Hold():
            return "hold"
        case Stop():
            return "stop"


def decide(
    diagnosis: Diagnosis,
    history: History,
    *,
    way: Way,
    limits: Limits,
    queued_by_slurm: bool,
    suspicion: Suspicion | None = None,
) -> Decision:
    """What to do now that the attempt is over. `queued_by_slurm`: Slurm's record shows that it did so itself.

    `suspicion`: what to think of the checkpoint that the attempt resumed from; a Quarantine is to be written down with
    the decision, whatever that is.
    """
    because = diagnosis.because
    match diagnosis.cause:
        case Cause.FINISHED:
            return Finish(because)
        case Cause.CANCELLED | Cause.OPERATOR_STOP:
            return _give_up(f"{because}; to go on, submit it again", queued_by_slurm)
        case Cause.CANCELLED_BY_ADMIN:
            return _give_up(f"{because}; ask whoever runs the cluster why, then submit it again", queued_by_slurm)
        case Cause.DEPENDENCY_NEVER:
            return Stop(f"{because}; such a job never starts: cancel it, and submit it again without that dependency")
        case Cause.PREFLIGHT:
            return _give_up(f"{because}; to go on, mend it and submit the job again", queued_by_slurm)
        case Cause.FENCED:
            return Stop(f"{because}; the newer attempt has the run: there is nothing to do")
        case Cause.REQUEUED_BY_HAND:
            return AlreadyQueued(because)
        case Cause.PREEMPTED:
            return _go_on(because, way, queued_by_slurm)  # somebody's turn: costs no try
        case (
            Cause.TIME_LIMIT
            | Cause.NODE_FAILURE
            | Cause.WARNED
            | Cause.SUPERVISOR_DIED
            | Cause.CRASHED
            | Cause.UNKNOWN
            | Cause.HUNG
            | Cause.STORAGE
            | Cause.OUT_OF_MEMORY
            | Cause.LAUNCH_FAILED
            | Cause.NEVER_STARTED
        ):
            return _within_budget(diagnosis, history, way, limits, queued_by_slurm, suspicion)


def _within_budget(
    diagnosis: Diagnosis,
    history: History,
    way: Way,
    limits: Limits,
    queued_by_slurm: bool,
    suspicion: Suspicion | None,
) -> Decision:
    because = diagnosis.because
    if isinstance(suspicion, Quarantine):
        return _go_on(f"{because}; {suspicion}", way, queued_by_slurm)  # from another start: nothing before it counts
    weighed = uses_of(diagnosis.cause, history, limits)
    spent = reason_of(weighed)
    if spent is not None:
        doubt = "" if suspicion is None else f"; {suspicion}"
        return _give_up(f"{spent}; the last: {because}{doubt}", queued_by_slurm)
    counted = ", ".join(str(use) for use in weighed if use.used)
    return _go_on(f"{because} ({counted})" if counted else because, way, queued_by_slurm)


def reason_of(weighed: Sequence[Use]) -> str | None:
    """Why the run is given up; None: nothing of what is weighed is spent."""
    return ", and ".join(_spent(use) for use in weighed if use.spent) or None


def _spent(use: Use) -> str:
    if use.budget is Budget.WITHOUT_PROGRESS:
        return f"{use.used} attempts in a row gained no step (limit {use.limit})"
    return str(use)


def _go_on(reason: str, way: Way, queued_by_slurm: bool) -> Decision:
    if queued_by_slurm:
        return AlreadyQueued(reason)
    match way:
        case Way.REQUEUE:
            return Requeue(reason)
        case Way.CHAIN:
            return Successor(reason)
        case Way.IN_PLACE:
            return Restart(reason)
        case Way.NONE:
            return Stop(f"{reason}; only a batch job with --requeue can be queued again: start it again to go on")


def _give_up(reason: str, queued_by_slurm: bool) -> Decision:
    """A run that is given up must not be started by Slurm for ever, attempt after attempt."""
    return Hold(reason) if queued_by_slurm else Stop(reason)
