"""What Slurm does with a preempted job, by its release, by the mode and by how the job left. Pure.

The same end of the same job is COMPLETED for ever on one release and queued again, and counted, on the next: the change
is Slurm's commit a689104d15, first in 24.05.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.slurm.client import JobState

Release = tuple[int, int]


class Mode(enum.Enum):
    REQUEUE = "REQUEUE"
    CANCEL = "CANCEL"  # also what REQUEUE comes to for a job with --no-requeue
    SUSPEND = "SUSPEND"


class Left(enum.Enum):
    """How a preempted job's batch script came to its end."""

    WITH_0 = "left with 0 in its grace"
    WITH_AN_ERROR = "left with another code in its grace"
    STAYED = "stayed until its grace was over"
    REQUEUED_ITSELF = "had itself queued again in its grace"


@dataclass(frozen=True, slots=True)
class Fate:
    state: JobState
    """What Slurm lists when the job is over."""
    queued_again: bool
    counted: bool
    """To MaxBatchRequeue: the job is held for good when that many have been counted."""
    measured: str
    """Where; `source`: read there, not measured."""


@dataclass(frozen=True, slots=True)
class Row:
    since: Release
    before: Release | None
    mode: Mode
    left: frozenset[Left]
    fate: Fate


_EXITS = frozenset({Left.WITH_0, Left.WITH_AN_ERROR})
_OLD: Release = (22, 5)
_NEW: Release = (24, 5)

ROWS = (
    Row(_OLD, _NEW, Mode.REQUEUE, frozenset({Left.WITH_0}), Fate(JobState.COMPLETED, False, False, "22.05.8")),
    Row(_OLD, _NEW, Mode.REQUEUE, frozenset({Left.WITH_AN_ERROR}), Fate(JobState.FAILED, False, False, "22.05.8")),
    Row(_OLD, _NEW, Mode.CANCEL, frozenset({Left.WITH_0}), Fate(JobState.COMPLETED, False, False, "22.05.8")),
    Row(_OLD, _NEW, Mode.CANCEL, frozenset({Left.WITH_AN_ERROR}), Fate(JobState.FAILED, False, False, "source")),
    Row(_NEW, None, Mode.REQUEUE, _EXITS, Fate(JobState.PENDING, True, True, "24.11.5, 25.11.7")),
    Row(_NEW, None, Mode.CANCEL, _EXITS, Fate(JobState.PREEMPTED, False, False, "24.11.5, 25.11.7")),
    Row(
        _OLD,
        None,
        Mode.REQUEUE,
        frozenset({Left.STAYED, Left.REQUEUED_ITSELF}),
        Fate(JobState.PENDING, True, False, "22.05.8, 24.11.5, 25.11.7"),
    ),
    Row(_OLD, None, Mode.CANCEL, frozenset({Left.STAYED}), Fate(JobState.PREEMPTED, False, False, "22.05.8, 24.11.5")),
    Row(_OLD, None, Mode.SUSPEND, frozenset({Left.STAYED}), Fate(JobState.SUSPENDED, False, False, "source")),
)


def mode_of(words: str, *, may_requeue: bool = True) -> Mode | None:
    """The mode that `words` (`GANG,SUSPEND`) come to; None: no preemption, or not known."""
    named = {word.strip().upper() for word in words.split(",")}
    if Mode.SUSPEND.value in named:
        return Mode.SUSPEND
    if Mode.REQUEUE.value in named:
        return Mode.REQUEUE if may_requeue else Mode.CANCEL
    return Mode.CANCEL if Mode.CANCEL.value in named else None


def fate(release: Release | None, mode: Mode | None, left: Left) -> Fate | None:
    """None where the table has no word for it: an unknown release, or one older than all that was looked at."""
    if release is None or mode is None:
        return None
    for row in ROWS:
        known = row.since <= release and (row.before is None or release < row.before)
        if known and row.mode is mode and left in row.left:
            return row.fate
    return None
