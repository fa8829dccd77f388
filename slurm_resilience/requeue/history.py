"""What came before an attempt's end, as the decision weighs it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.budget import Budget, Use, budget_of, limit_of
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.starter import Starter, was_stopped, who_started

CRASHES = (Cause.CRASHED, Cause.OUT_OF_MEMORY, Cause.HUNG, Cause.STORAGE, Cause.UNKNOWN)
"""The command's own failures, and what nobody can explain."""
FREE = (Cause.PREEMPTED, Cause.REQUEUED_BY_HAND)
"""Somebody else's doing: an attempt that ended so is passed over, whatever it gained."""
_NEVER_RAN = (Cause.LAUNCH_FAILED, Cause.NEVER_STARTED)


@dataclass(frozen=True, slots=True)
class History:
    """How often what has happened since the run's last progress, this end included: names as in `Limits`.

    The end of the attempt that made the progress came after it, and is counted where its cause has a budget of its own.
    """

    attempts_without_progress: int = 0
    crashes: int = 0
    hangs: int = 0
    storage_faults: int = 0
    out_of_memory: int = 0
    node_failures: int = 0
    never_started: int = 0
    quarantines: int = 0

    def used(self, budget: Budget) -> int:
        match budget:
            case Budget.WITHOUT_PROGRESS:
                return self.attempts_without_progress
            case Budget.CRASHES:
                return self.crashes
            case Budget.HANGS:
                return self.hangs
            case Budget.STORAGE_FAULTS:
                return self.storage_faults
            case Budget.OUT_OF_MEMORY:
                return self.out_of_memory
            case Budget.NODE_FAILURES:
                return self.node_failures
            case Budget.NEVER_STARTED:
                return self.never_started
            case Budget.QUARANTINES:
                return self.quarantines


def history_with(chain: Chain, ending: int, cause: Cause) -> History:
    """The attempts since the last progress, newest first, from number `ending` on, which ends (now) by `cause`.

    Attempts before a quarantine don't count any more: it has changed what the next one starts from. Nor do those before
    a stop after which a person has started the run again: their word gives all budgets back.

    A program without our library tells nothing of its steps: an attempt of it counts as progress unless it failed. Once
    an attempt of the run has loaded a state, one that did not come so far has gained nothing.
    """
    used: Counter[Budget] = Counter()
    uses_library = any(attempt.resumed is not None or attempt.checkpoints for attempt in chain.attempts)
    counted = True
    later: Attempt | None = None
    for attempt in reversed(chain.attempts):
        if attempt.number > ending:
            continue
        if later is not None and _person_between(attempt, later):
            break
        told = attempt.ended.cause if attempt.ended is not None else Cause.UNKNOWN
        its_cause = cause if attempt.number == ending else told
        silent_progress = not uses_library and its_cause not in (*CRASHES, *_NEVER_RAN)
        progress = attempt.gained or silent_progress
        used[Budget.QUARANTINES] += len(attempt.quarantined)
        counted = counted and not attempt.quarantined
        if counted:
            own = budget_of(its_cause)
            if own is not None:
                used[own] += 1
            used[Budget.WITHOUT_PROGRESS] += not progress and its_cause not in FREE
        if progress:
            break
        later = attempt
    return History(*(used[budget] for budget in Budget))


def history_so_far(chain: Chain) -> History:
    """What counts at the moment: of the attempts that are over. A running attempt that gained something has cleared it.

    The one that runs, or died without a word, is not counted.
    """
    newest = chain.newest_attempt
    if newest is None:
        return History()
    if newest.ended is not None:
        return history_with(chain, newest.number, newest.ended.cause)
    before = next((attempt for attempt in reversed(chain.attempts) if attempt.number < newest.number), None)
    if before is None or newest.gained or _person_between(before, newest):
        return History()
    return history_with(chain, before.number, Cause.UNKNOWN if before.ended is None else before.ended.cause)


def uses(history: History, limits: Limits) -> tuple[Use, ...]:
    """Every budget, with what is used of it, in the order of `Limits`."""
    return tuple(Use(budget, history.used(budget), limit_of(limits, budget)) for budget in Budget)


def uses_of(cause: Cause, history: History, limits: Limits) -> tuple[Use, ...]:
    """The budgets that an end by `cause` has to pass: its own, and that of attempts without progress. None: free."""
    if cause in FREE:
        return ()
    own = budget_of(cause)
    return tuple(use for use in uses(history, limits) if use.budget in (own, Budget.WITHOUT_PROGRESS))


def _person_between(before: Attempt, after: Attempt) -> bool:
    """Whether the run was stopped with `before`, and a person has started `after`."""
    started = after.started
    return was_stopped(before) and who_started(before, started.job, started.restart_count) is Starter.PERSON
