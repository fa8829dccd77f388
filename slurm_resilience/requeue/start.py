"""Whether an attempt may start at all. Pure.

The end of the last attempt was decided about, but Slurm has no ear for that: it starts a job that it had queued before
it could be held, and a successor whose cancellation never arrived. What a person starts always may; see starter.py for
what can be told apart.
"""

from __future__ import annotations

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import Cause
from slurm_resilience.requeue.decision import Stop, reason_of
from slurm_resilience.requeue.history import history_with, uses_of
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.starter import Starter, was_stopped, who_started

_WHAT_HELPS = "to go on all the same, submit it again, or `slurm-resilience resume --anyway`"
_COMES_BACK_SINCE, _MENDED_IN = (24, 5), (26, 5)


def may_start(
    chain: Chain,
    limits: Limits,
    *,
    job: str | None,
    restart_count: int | None,
    successor: bool = False,
    asked: bool = False,
    release: tuple[int, int] | None = None,
) -> Stop | None:
    """None: it may. Otherwise the reason, for srun-resilient to leave with 76 before it starts anything.

    `chain`: the end of the attempt before must have been told; that of this start (the same job and restart count) may
    stand in it already. `job` None: not under Slurm. `successor`: its environment says that it is one, whether the
    journal knows its job or not. `asked`: a person's word for this very start, of which the journal knows nothing.

    `release`: of Slurm; None: not known. Some start a job that was preempted once more than anybody asked for.

    After a stop, the next life of the same job may be a person's `scontrol requeue` or Slurm's. It may start once; if
    it gains nothing, and is stopped again, it may not: so no limit is exceeded by more than one.
    """
    before = _before(chain, job, restart_count)
    if asked or chain.finished or before is None or before.ended is None:
        return None
    starter = who_started(before, job, restart_count)
    if successor and not restart_count and job != before.started.job:
        starter = Starter.SLURM
    match starter:
        case Starter.PERSON:
            return None
        case Starter.EITHER if _comes_back_by_itself(chain, before, restart_count, release):
            return _refusal(before, before.ended.decision_reason)
        case Starter.EITHER:
            return _refusal(before, before.ended.decision_reason) if _once_already(chain, before) else None
        case Starter.SLURM:
            why = before.ended.decision_reason if was_stopped(before) else _spent(chain, before, limits)
            return None if why is None else _refusal(before, why)


def _before(chain: Chain, job: str | None, restart_count: int | None) -> Attempt | None:
    """The last attempt before this start."""
    newest = chain.newest_attempt
    if newest is None or newest.ended is not None:
        return newest
    started = newest.started
    same = started.job == job and (started.restart_count or 0) == (restart_count or 0)
    return _attempt_before(chain, newest) if same else newest


def _attempt_before(chain: Chain, attempt: Attempt) -> Attempt | None:
    return next((each for each in reversed(chain.attempts) if each.number < attempt.number), None)


def _comes_back_by_itself(
    chain: Chain, stopped: Attempt, restart_count: int | None, release: tuple[int, int] | None
) -> bool:
    """A job that was preempted in a grace, and came back from it, is queued again when it leaves by itself the next
    time, whatever it leaves with (24.11.5, docs/slurm_facts_24_11.md). Once; so a life after that one is a person's.
    """
    if release is None or not _COMES_BACK_SINCE <= release < _MENDED_IN:
        return False
    job = stopped.started.job
    preempted = any(
        each.started.job == job and each.ended is not None and each.ended.cause is Cause.PREEMPTED
        for each in chain.attempts
    )
    return preempted and restart_count == (stopped.started.restart_count or 0) + 1


def _once_already(chain: Chain, stopped: Attempt) -> bool:
    """Whether `stopped` was itself started after a stop, nobody knows by whom, and gained nothing."""
    before = _attempt_before(chain, stopped)
    if before is None or stopped.gained or not was_stopped(before):
        return False
    return who_started(before, stopped.started.job, stopped.started.restart_count) is Starter.EITHER


def _spent(chain: Chain, before: Attempt, limits: Limits) -> str | None:
    """An attempt that died without a word was told by whoever came next, and nobody has weighed it."""
    if before.ended is None:
        return None
    cause = before.ended.cause
    spent = reason_of(uses_of(cause, history_with(chain, before.number, cause), limits))
    return None if spent is None else f"{spent}; the last: {before.ended.because}"


def _refusal(before: Attempt, why: str) -> Stop:
    return Stop(
        f"the run was given up with attempt {before.number} and is not started again by Slurm: {why}; {_WHAT_HELPS}"
    )
