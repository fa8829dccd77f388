"""What a stop request is, and how several become one."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class StopReason(enum.IntEnum):
    """Why the training is asked to stop; the numbers are part of the runtime folder's format.

    WARNING      SIGUSR1 or SIGUSR2: somebody announces an end that is still some way off
    TERMINATION  SIGTERM: preemption, the time limit, scancel or a requeue; only KillWait is promised
    TIME_LIMIT   we read the clock ourselves and the job's end is near
    OPERATOR     a person said `slurm-resilience stop RUN` or touched its stop file
    PEER_FAILED  another rank or node of this attempt is gone: there is nobody to go on with
    FENCED       a newer attempt of the run has started: this one is a ghost
    """

    WARNING = 1
    TERMINATION = 2
    TIME_LIMIT = 3
    OPERATOR = 4
    PEER_FAILED = 5
    FENCED = 6


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Stop by this deadline, for this reason."""

    reason: StopReason
    because: str
    """One sentence for people, at most 200 bytes of it travel to the ranks."""
    requested_s: float
    """When it was first asked, on the node's monotonic clock."""
    deadline_s: float
    """On the node's monotonic clock; what has not ended by then is killed. Infinite: nobody said when."""


def merge(standing: StopRequest | None, new: StopRequest) -> StopRequest:
    """One request out of two: the first keeps its reason, the deadline can only come nearer.

    Slurm sends one and the same SIGTERM two or three times: the later ones don't move anything, because their
    deadline lies further off than the first one's.
    """
    if standing is None:
        return new
    return replace(standing, deadline_s=min(standing.deadline_s, new.deadline_s))
