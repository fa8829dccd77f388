"""Why a queued job does not start, and which command helps. Pure: Slurm's record in, a sentence out.

The reasons are those of Slurm's own list (slurm.schedmd.com/job_reason_codes.html) and of its source; "measured" is on
Slurm 22.05.8, see docs/budgets.md. Two spellings of one reason are one: `scontrol` puts underscores for blanks, and a
reason may go on behind a comma (`ReqNodeNotAvail, UnavailableNodes:n1`).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime

from slurm_resilience.slurm.client import JobRecord, JobState, SlurmConfiguration

LAUNCH_LIMIT = "launch failure limit exceeded requeued held"


class Helper(enum.Enum):
    OWNER = "its owner"
    OPERATOR = "an operator of the cluster"
    NOBODY = "nobody"  # it is waiting for its turn


@dataclass(frozen=True, slots=True)
class Held:
    sentence: str
    command: str | None
    """What helps, as it is to be typed; None: nothing, or nothing but patience."""
    who: Helper
    """Who can run it: an owner's `release` of an operator's hold is refused."""
    for_ever: bool
    """Whether it never starts unless somebody does something."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    """`{job}`, `{reason}`, `{limit}` and `{run}` are filled in."""

    reason: str
    """A pattern for the whole reason, in small letters with blanks."""
    sentence: str
    command: str | None = None
    who: Helper = Helper.OWNER
    for_ever: bool = True


_RELEASE = "scontrol release {job}"
_UPDATE = "scontrol update JobId={job} "


def _waits(reason: str, sentence: str) -> _Meaning:
    return _Meaning(reason, sentence, None, Helper.NOBODY, for_ever=False)


_MEANINGS = (
    # Holds. The owner's word is taken back by the owner, anybody else's is not (measured on 25.11 as an ordinary user).
    _Meaning("jobhelduser", "it is held, by its owner or in its owner's name", _RELEASE),
    _Meaning("job requeued in held state", "it was requeued with `scontrol requeuehold`", _RELEASE),  # measured
    _Meaning("job requeued in special exit state|specialexit", "it was requeued as a special exit", _RELEASE),
    # Slurm's own hold after a failed launch is called that too, once the scheduler has passed by (22.05.8, measured).
    _Meaning(
        "jobheldadmin",
        "an operator holds it, or Slurm itself, which could not start it (a prolog, a node); "
        "its owner can't release it",
        _RELEASE,
        Helper.OPERATOR,
    ),
    # From 24.05 on every end within a preemption's grace counts towards this. MaxBatchRequeue: 5, before 23.02 always.
    _Meaning(
        f"{LAUNCH_LIMIT}|jobholdmaxrequeue|maxrequeue",
        "Slurm has queued it again {limit} times after failed launches and holds it now; its owner can't release it, "
        "but can cancel it and submit it again, which counts from the beginning",
        _RELEASE,
        Helper.OPERATOR,
    ),
    _Meaning(
        "launch failed requeued held|joblaunchfailure|failedlaunch",
        "Slurm could not start it on its nodes (a prolog, a node, a plugin) and holds it now; "
        "where the release is refused, ask an operator",
        _RELEASE,
    ),
    _Meaning("reservationdeleted", "the reservation that it asked for is gone", _UPDATE + "ReservationName="),
    # Requests that nothing can satisfy.
    _Meaning(
        "dependencyneversatisfied",
        "what it depends on has ended otherwise than asked for: it never starts",
        _UPDATE + "Dependency=",  # measured: it starts at once
    ),
    _Meaning(
        "badconstraints",
        "no node has what it asks for; after a requeue mostly because a node that it requires (-w) is excluded as well",
        _UPDATE + "ExcNodeList=",  # measured: its priority comes back by itself
    ),
    _Meaning(
        "partitionconfig|partitionnodelimit|partitiontimelimit",
        "it asks for more than its partition allows ({reason})",
        "scontrol show partition",
    ),
    _Meaning(
        "invalidaccount|invalidqos|accountnotallowed|qosnotallowed",
        "its account or QOS may not be used there ({reason})",
        "sacctmgr show associations user=$USER format=account,partition,qos%40",
    ),
    _Meaning("deadline", "it can't be over before its deadline any more", "scancel {job}"),
    # Waiting, and nothing is wrong.
    _Meaning("begintime", "it waits until its begin time", _UPDATE + "StartTime=now", for_ever=False),  # measured
    _waits("priority", "jobs of a higher priority come first"),
    _waits("resources|none|", "it waits for nodes, and is next"),
    _waits("dependency", "it waits for another job to end"),
    _waits("licenses", "it waits for a licence"),
    _waits("reservation", "it waits for its reservation to begin"),
    _waits("jobarraytasklimit", "as many elements of its array run as are allowed at once"),
    _waits("prolog|cleaning", "it is being started, or its last life is being cleared away"),
    _Meaning(
        "partitiondown|partitioninactive",
        "its partition is closed ({reason})",
        _UPDATE + "Partition=ANOTHER",
        for_ever=False,
    ),
    _waits(
        "reqnodenotavail.*|nodedown|nodes required for job are down.*",
        "nodes that it needs are down, drained or reserved ({reason}); it starts when they are back",
    ),
    _waits(
        "qos.*|assoc.*|max.*per(account|user|job)|accountingpolicy",
        "a limit of its QOS or account is reached ({reason}); it starts when other jobs have ended, "
        "or never where it asks for more than the limit itself",
    ),
)


def explain_hold(
    record: JobRecord, configuration: SlurmConfiguration | None, *, now_s: float, run: str = "RUN"
) -> Held | None:
    """Why a pending job does not run. None: it isn't pending. `run` is how the run is called in a command."""
    if record.state is not JobState.PENDING or record.completing:
        return None
    reason = _plain(record.reason)
    if reason == "begintime":
        return _begin_time(record, configuration, now_s, run)
    hold_exits = () if configuration is None else configuration.requeue_exit_hold
    if reason == "jobhelduser" and record.exit_code in hold_exits:
        return Held(
            f"it is held, because its batch script left with {record.exit_code}, which is one of the cluster's "
            "RequeueExitHold",
            f"scontrol release {record.job}",
            Helper.OWNER,
            for_ever=True,
        )
    for meaning in _MEANINGS:
        if re.fullmatch(meaning.reason, reason) and not (record.held and not meaning.for_ever):
            return _filled_in(meaning, record, configuration, run)
    if record.held:
        return Held(
            f"its priority is 0, so it never starts; the reason it gives is {record.reason or 'none'}; "
            "where the release is refused, ask an operator",
            f"scontrol release {record.job}",
            Helper.OWNER,
            for_ever=True,
        )
    return Held(
        f"it waits for a reason that this version doesn't know: {record.reason}",
        f"scontrol show job {record.job}",
        Helper.OWNER,
        for_ever=False,
    )


def _plain(reason: str) -> str:
    return reason.replace("_", " ").strip().lower()


def _begin_time(record: JobRecord, configuration: SlurmConfiguration | None, now_s: float, run: str) -> Held:
    until = (
        "" if record.start_s is None else f" {datetime.fromtimestamp(record.start_s).astimezone():%Y-%m-%d %H:%M:%S}"
    )
    if not record.restarts:
        command = f"scontrol update JobId={record.job} StartTime=now"
        return Held(f"it waits until its begin time{until}", command, Helper.OWNER, for_ever=False)
    left = "" if record.start_s is None else f", {max(0, round(record.start_s - now_s))} s from now"
    delay = "two minutes" if configuration is None else f"{configuration.requeue_delay_s} s"
    return Held(
        f"it was requeued, and Slurm holds every requeued job back for {delay}: until{until or ' then'}{left}",
        f"slurm-resilience resume {run} --requeue-now",
        Helper.OWNER,
        for_ever=False,
    )


def _filled_in(meaning: _Meaning, record: JobRecord, configuration: SlurmConfiguration | None, run: str) -> Held:
    limit = None if configuration is None else configuration.max_batch_requeue
    words = {"job": record.job, "reason": record.reason, "limit": "5" if limit is None else f"{limit}", "run": run}
    command = None if meaning.command is None else meaning.command.format(**words)
    return Held(meaning.sentence.format(**words), command, meaning.who, meaning.for_ever)
