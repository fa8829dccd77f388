"""What came before an attempt's end, as the decision weighs it. Pure."""

from __future__ import annotations

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import History

CRASHES = (Cause.CRASHED, Cause.OUT_OF_MEMORY, Cause.UNKNOWN)
"""The command's own failures, and what nobody can explain."""
_FREE = (Cause.PREEMPTED, Cause.REQUEUED_BY_HAND)
"""Somebody else's doing: an attempt that ended so is passed over, whatever it gained."""


def history_with(chain: Chain, ending: int, cause: Cause) -> History:
    """The attempts without progress, newest first, up to number `ending`, which ends now by `cause`.

    A program without our library tells nothing of its steps: an attempt of it counts as progress unless it crashed.
    """
    stuck: list[Cause] = []
    for attempt in reversed(chain.attempts):
        told = attempt.ended.cause if attempt.ended is not None else Cause.UNKNOWN
        its_cause = cause if attempt.number == ending else told
        uses_library = attempt.resumed is not None
        if attempt.gained or (not uses_library and its_cause not in CRASHES):
            break
        stuck.append(its_cause)
    return History(
        attempts_without_progress=sum(one not in _FREE for one in stuck),
        crashes_since_progress=sum(one in CRASHES for one in stuck),
    )
