"""How much patience a publisher deserves: when it has ended by itself, and when the training is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.requeue.decision import AlreadyQueued, Decision, Finish, Hold, Requeue, Restart, Stop, Successor
from slurm_resilience.signals.ladder import LAST_WORDS_S

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 600.0
TRIES_BESIDE = 8
"""Ends in a row beside a training before it is given up: over half an hour, most outages of a place are shorter."""
TRIES_AFTERWARDS = 3
"""The same on nodes that only wait for it: they are somebody's."""
LONG_LIFE_S = 3600.0
"""One that has lived this long was all right: what it ended of has nothing to do with the ends before."""
LEAVE_BEFORE_END_S = 30.0
"""A job that is still there at its end is TIMEOUT in Slurm's books, although its run is finished."""
STOP_S = 5.0
"""How long the block that is being sent may still take."""


@dataclass(frozen=True, slots=True)
class StartAgain:
    pause_s: float


@dataclass(frozen=True, slots=True)
class EndedInOrder:
    """It was done, or somebody has asked it to end."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    tries: int


def after_its_end(code: int, *, ends: int, afterwards: bool) -> StartAgain | EndedInOrder | GiveUp:
    """`ends`: how often it has ended in a row, this time included. `afterwards`: the run is finished, something isn't
    published, and nothing but this is waited for; then 0 is no answer either."""
    if code == 0 and not afterwards:
        return EndedInOrder()
    tries = TRIES_AFTERWARDS if afterwards else TRIES_BESIDE
    if ends >= tries:
        return GiveUp(ends)
    return StartAgain(min(FIRST_PAUSE_S * 2 ** (ends - 1), LONGEST_PAUSE_S))


@dataclass(frozen=True, slots=True)
class Wait:
    """Until everything is published."""

    at_most_s: float | None
    """None: nothing ends the time that we have."""


@dataclass(frozen=True, slots=True)
class Halt:
    within_s: float
    """From the request to end until it is killed."""


def when_it_is_over(decision: Decision, *, job_ends_in_s: float | None, must_leave_in_s: float | None) -> Wait | Halt:
    """What becomes of the publisher once the decision about the run is carried out.

    Whatever goes on publishes there: waiting would only hold the nodes. `must_leave_in_s`: until Slurm kills us.
    """
    match decision:
        case Finish():
            left = [] if job_ends_in_s is None else [job_ends_in_s - LEAVE_BEFORE_END_S]
            left += [] if must_leave_in_s is None else [must_leave_in_s - LAST_WORDS_S]
            at_most_s = min(left, default=None)
            if at_most_s is None or at_most_s > 0:
                return Wait(at_most_s)
        case Requeue() | Successor() | Restart() | AlreadyQueued() | Hold() | Stop():
            pass
    return Halt(STOP_S if must_leave_in_s is None else max(0.0, min(STOP_S, must_leave_in_s - LAST_WORDS_S / 3)))
