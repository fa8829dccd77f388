"""What Slurm says of the end: its record of the job, and the job's lives as accounting keeps them. Pure.

A job has a life for every time that it was queued; the one that is asked about began with `restarts_at_start`. What
Slurm's record says may belong to a later one. See docs/slurm_facts.md for where each of these was seen.
"""

from __future__ import annotations

from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRecord, JobState, PastLife
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.finding import Finding, Source, Weight
from slurm_resilience.triage.versions import Fate, Left, Mode, fate, mode_of

TIME_LIMIT_REASON = "timelimit"
"""What a job that completes because its time is over has as its reason (22.05.8)."""
_NODE_REASON = "nodedown"
"""The same for one that may not be requeued and has lost a node (22.05.8); its list of nodes has forgotten that one."""
_DEPENDENCY_REASON = "dependencyneversatisfied"
_LAUNCH_REASONS = (
    "launch failed requeued held",
    "launch failure limit exceeded",
    "joblaunchfailure",
    "jobholdmaxrequeue",
    "prolog failed",
    "prolog error",
)
_LIMIT_REASONS = ("launch failure limit exceeded", "jobholdmaxrequeue")
_MOMENT_S = 1.0
"""Slurm's times are whole seconds: less apart than this is the same instant."""
_OOM_SIGNAL = 125
"""What is left of Slurm's own out-of-memory signal, 253, in an exit code's signal (read in its source)."""
_OVER = frozenset(JobState) - {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN}
_LEFT = frozenset({JobState.COMPLETED, JobState.FAILED})
"""The batch script left by itself: no word of why."""


def slurms_finding(evidence: Evidence) -> Finding | None:
    life = _our_life(evidence)
    record = evidence.record
    if record is None:
        return _by_life(evidence, life) or _seen_in_grace(evidence)
    return (
        _never_to_start(evidence, record)
        or _cancelled(evidence, record)
        or _end_of_time(record)
        or _queued_again(evidence, record, life)
        or _by_state(evidence, record.state, f"job {record.job}", record.requeue)
        or _preempted(evidence, record)
        or _being_ended(evidence, record)
        or _not_launched(evidence, record)
        or _by_life(evidence, life)
        or _left_after_sigterm(evidence, record)
        or _over_at_once(evidence, record)
        or _failed(evidence, record)
        or _seen_in_grace(evidence)
    )


def _explicit(cause: Cause, because: str) -> Finding:
    return Finding(Source.SLURM, Weight.EXPLICIT, cause, because)


def _implied(cause: Cause, because: str) -> Finding:
    return Finding(Source.SLURM, Weight.IMPLIED, cause, because)


def _our_life(evidence: Evidence) -> PastLife | None:
    """The life that began with our restart count, where accounting has them all: the one that pends may be missing.

    (22.05.8 lists a life only when it starts; what an old database has purged would shift all the others.)
    """
    lives, record = evidence.lives, evidence.record
    if record is not None and len(lives) < record.restarts:
        return None
    return lives[evidence.restarts_at_start] if evidence.restarts_at_start < len(lives) else None


def _reason(record: JobRecord) -> str:
    """22.05's squeue writes reasons with spaces, newer ones with underscores."""
    return record.reason.replace("_", " ").strip().lower()


def _mode(evidence: Evidence, may_requeue: bool) -> Mode | None:
    return mode_of(evidence.preempt_mode, may_requeue=may_requeue)


def _in_mode(mode: Mode | None) -> str:
    return f" (mode {mode.value})" if mode is not None else ""


def _never_to_start(evidence: Evidence, record: JobRecord) -> Finding | None:
    if _reason(record) != _DEPENDENCY_REASON or _cancelled_by(evidence) is not None:
        return None
    because = f"job {record.job} waits for a job that did not end as it was to: it never starts"
    return _explicit(Cause.DEPENDENCY_NEVER, because)


def _cancelled_by(evidence: Evidence) -> int | None:
    """Of the newest life: that it was cancelled holds for all of them."""
    return evidence.lives[-1].cancelled_by if evidence.lives else None


def _cancelled(evidence: Evidence, record: JobRecord) -> Finding | None:
    """Also where it is a later life that was cancelled: that was a person's word too."""
    if record.state is not JobState.CANCELLED:
        return None
    by = _cancelled_by(evidence)
    return _cancellation(evidence, f"job {record.job}", by, record.start_s, record.end_s, record.nodes)


def _cancellation(
    evidence: Evidence, what: str, by: int | None, start_s: float | None, end_s: float | None, nodes: str
) -> Finding:
    """A job that has had nodes for no time at all, and that nobody is said to have cancelled, met something else."""
    if by is not None and evidence.user_id is not None and by != evidence.user_id:
        because = f"{what} was cancelled by user {by}, and it is user {evidence.user_id}'s"
        return _explicit(Cause.CANCELLED_BY_ADMIN, because)
    if by is not None:
        return _explicit(Cause.CANCELLED, f"{what} was cancelled by user {by}")
    if nodes and not evidence.signs_of_life and _ran_no_time(start_s, end_s):
        because = (
            f"{what} was cancelled the moment it had its nodes, before anything could run, and nothing says by whom"
        )
        return _implied(Cause.NEVER_STARTED, because)
    return _explicit(Cause.CANCELLED, f"{what} was cancelled")


def _ran_no_time(start_s: float | None, end_s: float | None) -> bool:
    return start_s is None or (end_s is not None and end_s - start_s < _MOMENT_S)


def _end_of_time(record: JobRecord) -> Finding | None:
    """The reason outlives a requeue for as long as the job is completing."""
    if not record.completing or _reason(record) != TIME_LIMIT_REASON:
        return None
    return _explicit(Cause.TIME_LIMIT, f"job {record.job} reached its time limit")


def _queued_again(evidence: Evidence, record: JobRecord, life: PastLife | None) -> Finding | None:
    if record.restarts <= evidence.restarts_at_start:
        return None
    what = f"job {record.job}"
    if life is not None and life.state is not JobState.CANCELLED:  # who queues a cancelled job again knows that
        by_life = _by_life(evidence, life)
        if by_life is not None:
            return by_life
    mode = _mode(evidence, True)
    if record.preempted_s is not None or evidence.in_grace:
        return _explicit(Cause.PREEMPTED, f"{what} was preempted{_in_mode(mode)} and Slurm has queued it again")
    polite = fate(evidence.release, mode or Mode.REQUEUE, Left.WITH_0)
    if polite is not None and polite.queued_again and evidence.preempted_as_it_seems:
        reason = _reason(record)
        if any(words in reason for words in _LIMIT_REASONS):
            because = f"{what} was preempted, left in its grace, and Slurm holds it: it takes that for a failed launch"
            return _implied(Cause.PREEMPTED, because)
        if record.state is JobState.PENDING:
            because = f"{what} was preempted{_in_mode(mode)}, left in its grace, and Slurm has queued it again"
            return _implied(Cause.PREEMPTED, because)
    not_launched = _not_launched(evidence, record)
    if not_launched is not None:
        return not_launched
    return _implied(Cause.REQUEUED_BY_HAND, f"{what} was requeued while it ran, by a person or by Slurm")


def _by_state(evidence: Evidence, state: JobState, what: str, may_requeue: bool) -> Finding | None:
    match state:
        case JobState.TIMEOUT:
            return _explicit(Cause.TIME_LIMIT, f"{what} reached its time limit")
        case JobState.NODE_FAIL:
            return _explicit(Cause.NODE_FAILURE, f"a node of {what} failed")
        case JobState.PREEMPTED:
            return _explicit(Cause.PREEMPTED, f"{what} was preempted{_in_mode(_mode(evidence, may_requeue))}")
        case JobState.OUT_OF_MEMORY:
            return _explicit(Cause.OUT_OF_MEMORY, f"{what} ran out of memory")
        case JobState.BOOT_FAIL:
            return _explicit(Cause.LAUNCH_FAILED, f"the nodes of {what} did not boot")
        case JobState.DEADLINE:
            # Not the time limit: a job that is queued again meets the same deadline, and it was its user who set it.
            return _explicit(Cause.CANCELLED, f"{what} reached the --deadline that its user had set")
        case JobState.SUSPENDED if mode_of(evidence.preempt_mode) is Mode.SUSPEND:
            return _implied(Cause.PREEMPTED, f"{what} is preempted{_in_mode(Mode.SUSPEND)}: it stands still")
        case (
            JobState.SUSPENDED
            | JobState.PENDING
            | JobState.RUNNING
            | JobState.COMPLETED
            | JobState.CANCELLED
            | JobState.FAILED
            | JobState.UNKNOWN
        ):
            return None


def _preempted(evidence: Evidence, record: JobRecord) -> Finding | None:
    """The record keeps the time of a preemption until the job is queued again (22.05: for ever where it isn't)."""
    if record.preempted_s is None:
        return None
    mode = _mode(evidence, record.requeue)
    if not record.completing:
        if record.state not in _LEFT:
            return _explicit(Cause.PREEMPTED, f"job {record.job} is being preempted{_in_mode(mode)}")
        return _explicit(Cause.PREEMPTED, _left_in_grace(evidence, record, mode))
    # Slurm moves the time to the end of the grace when that ends the job; a cancellation in the grace doesn't move it.
    if record.end_s is not None and abs(record.end_s - record.preempted_s) < _MOMENT_S:
        because = f"job {record.job} was preempted{_in_mode(mode)} and Slurm doesn't queue it again"
        return _explicit(Cause.PREEMPTED, because)
    return None


def _left_in_grace(evidence: Evidence, record: JobRecord, mode: Mode | None) -> str:
    because = f"job {record.job} was preempted{_in_mode(mode)} and left in its grace"
    comes = _fate_of_leaving(evidence, record, mode)
    if evidence.release is None or comes is None or comes.queued_again:
        return because
    major, minor = evidence.release
    return f"{because}: Slurm {major}.{minor:02d} lists it as {record.state.value} and doesn't queue it again"


def _fate_of_leaving(evidence: Evidence, record: JobRecord, mode: Mode | None) -> Fate | None:
    left = Left.WITH_0 if record.state is JobState.COMPLETED else Left.WITH_AN_ERROR
    return fate(evidence.release, mode or Mode.REQUEUE, left)


def _not_launched(evidence: Evidence, record: JobRecord) -> Finding | None:
    """Not where something of the attempt ran: a batch shell that a signal ends is a JobLaunchFailure to Slurm too."""
    if evidence.signs_of_life or record.exit_signal:
        return None
    reason = _reason(record)
    if any(words in reason for words in _LAUNCH_REASONS):
        return _implied(Cause.LAUNCH_FAILED, f"Slurm could not start job {record.job} on its nodes: {record.reason}")
    return None


def is_being_cancelled(record: JobRecord) -> bool:
    """Whether a job whose batch script lives, and that nobody has queued again since, is being ended for a person.

    Slurm names a time limit and a lost node, and keeps the time of a preemption.
    """
    named = (TIME_LIMIT_REASON, _NODE_REASON)
    return record.completing and _reason(record) not in named and record.preempted_s is None


def _being_ended(evidence: Evidence, record: JobRecord) -> Finding | None:
    """Slurm ends a job whose batch script lives, doesn't queue it again and names no time limit."""
    if record.completing and _reason(record) == _NODE_REASON:
        return _explicit(Cause.NODE_FAILURE, f"a node of job {record.job} failed")
    if not record.completing or evidence.supervisor_died:
        return None
    return _explicit(Cause.CANCELLED, f"job {record.job} was cancelled")


def _seen_in_grace(evidence: Evidence) -> Finding | None:
    """The record says nothing any more, or there is none: then what it said while the attempt ran holds."""
    if not evidence.in_grace:
        return None
    in_mode = _in_mode(_mode(evidence, evidence.record is None or evidence.record.requeue))
    return _explicit(Cause.PREEMPTED, f"Slurm was preempting the job{in_mode} when the ranks were asked to stop")


def _by_life(evidence: Evidence, life: PastLife | None) -> Finding | None:
    if life is None:
        return None
    if life.state is JobState.CANCELLED:
        if life is not evidence.lives[-1]:
            return None  # and queued again since: who did that knew
        return _cancellation(evidence, "the job", life.cancelled_by, life.start_s, life.end_s, life.nodes)
    return _by_state(evidence, life.state, "the job", True)


def _left_after_sigterm(evidence: Evidence, record: JobRecord) -> Finding | None:
    """Asked when all is over, and Slurm lists a job that left by itself: on some releases that is a preemption.

    A batch script that a signal ended left its ranks alone, and the SIGTERM was Slurm's answer to that.
    """
    if record.state not in _LEFT or record.completing or not evidence.preempted_as_it_seems:
        return None
    if record.exit_signal or (record.exit_code is not None and record.exit_code >= 128):
        return None
    mode = _mode(evidence, record.requeue)
    comes = _fate_of_leaving(evidence, record, mode)
    if comes is None or comes.state is not record.state:
        return None
    return _implied(Cause.PREEMPTED, _left_in_grace(evidence, record, mode))


def _over_at_once(evidence: Evidence, record: JobRecord) -> Finding | None:
    if record.state not in _OVER or evidence.signs_of_life or not _ran_no_time(record.start_s, record.end_s):
        return None
    return _implied(Cause.NEVER_STARTED, f"job {record.job} was over before anything of the run could start in it")


def _failed(evidence: Evidence, record: JobRecord) -> Finding | None:
    """How the batch script left, where the supervisor isn't who died of it: no word of why."""
    if record.state is not JobState.FAILED or evidence.supervisor_died:
        return None
    if record.exit_signal == _OOM_SIGNAL:
        return _implied(Cause.OUT_OF_MEMORY, f"job {record.job} failed with Slurm's own signal for too little memory")
    how = f"signal {record.exit_signal}" if record.exit_signal else f"exit code {record.exit_code}"
    return Finding(Source.SLURM, Weight.BARE, Cause.CRASHED, f"job {record.job} failed with {how}")
