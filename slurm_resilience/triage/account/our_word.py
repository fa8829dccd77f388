"""What srun-resilient itself has said of an end, where only the outputs can be read. Pure.

It knew more than its output shows: Slurm's record, the agents' records, the exit notes. So what it names is believed
before the words of others. What it only quotes from the output is nobody's new word: that stands there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.account.account import Verdict
from slurm_resilience.triage.event import Event

ENDED, DEPUTY, TOLD, KILLING = "ours.ended", "ours.deputy", "ours.told", "ours.killing"


@dataclass(frozen=True, slots=True)
class _Wording:
    begins: str
    """A regular expression, at the beginning of the sentence."""
    cause: Cause
    implied: bool = False
    """It fits the cause, and another could look the same."""
    explains: bool = True
    """False: it says that something ended, or quotes who says so."""


_JOB = r"(?:job \S+|the job)"
_WORDINGS = (
    _Wording(rf"{_JOB} (?:was|is|is being) preempted, left in its grace, and Slurm", Cause.PREEMPTED, implied=True),
    _Wording(rf"{_JOB} (?:was|is|is being) preempted|Slurm was preempting {_JOB}", Cause.PREEMPTED),
    _Wording("SIGTERM came before the job's time was over", Cause.PREEMPTED, implied=True),
    _Wording(rf"{_JOB} reached its time limit|the job's time is over", Cause.TIME_LIMIT),
    _Wording("the warning came at the end of the job's time", Cause.TIME_LIMIT, implied=True),
    _Wording(rf"a node of {_JOB} failed", Cause.NODE_FAILURE),
    _Wording("SIGTERM came to every node but|Slurm started the job anew, and nobody", Cause.NODE_FAILURE, implied=True),
    _Wording(rf"{_JOB} was cancelled by user \d+, and it is user", Cause.CANCELLED_BY_ADMIN),
    _Wording(rf"{_JOB} was cancelled the moment it had its nodes", Cause.NEVER_STARTED, implied=True),
    _Wording(rf"{_JOB} was over before anything of the run", Cause.NEVER_STARTED, implied=True),
    _Wording(rf"{_JOB} was cancelled|{_JOB} reached the --deadline", Cause.CANCELLED),
    _Wording(rf"{_JOB} was requeued while it ran", Cause.REQUEUED_BY_HAND, implied=True),
    _Wording(rf"{_JOB} waits for a job that did not end", Cause.DEPENDENCY_NEVER),
    _Wording(rf"Slurm could not start {_JOB}|the nodes of {_JOB} did not boot", Cause.LAUNCH_FAILED),
    _Wording("somebody asked the run to stop|the run's stop file was touched|SIGINT", Cause.OPERATOR_STOP),
    _Wording(r"SIG(?:USR[12]|HUP) came|a warning signal came", Cause.WARNED, implied=True),
    _Wording("a newer attempt of the run has started", Cause.FENCED),
    _Wording("the supervisor was killed while the training ran", Cause.SUPERVISOR_DIED),
    _Wording(rf"memory ran out: |{_JOB} ran out of memory|srun left with \d+: a task ran out", Cause.OUT_OF_MEMORY),
    _Wording(rf"{_JOB} failed with Slurm's own signal for too little memory", Cause.OUT_OF_MEMORY, implied=True),
    _Wording(r"task \d+ on \S+ .{1,80} by SIGKILL, and (?!nothing says)", Cause.OUT_OF_MEMORY),
    _Wording(r"task \d+ on \S+ .{1,80} by SIGKILL, by Slurm: the job's time was over", Cause.TIME_LIMIT, implied=True),
    _Wording(r"task \d+ on \S+ ", Cause.CRASHED, explains=False),
    _Wording("a file system said no: ", Cause.STORAGE),
    _Wording("the attempt died after a save that a file system had refused", Cause.STORAGE, implied=True),
    _Wording("a rank waited in vain: ", Cause.HUNG, explains=False),
    _Wording(r"on \S+: .{0,300}launcher hung", Cause.HUNG, explains=False),
    _Wording(r"on \S+: |a rank raised: |the node agent on .{1,200} was killed", Cause.CRASHED, explains=False),
)
_BEFORE = re.compile(r" (?:without a word|and the run will not go on by itself)|: |.{0,200}; the last: ")
_AFTER = re.compile(
    r" \((?:attempt|crash|hang|node failure|end for want|storage fault|launch|warning)[^()]{0,200}since the last"
    r"|; (?:the job is queued|only a batch job|it is not queued|nobody is known|to go on|start it again|Slurm starts)"
)


def our_verdict(events: Sequence[Event]) -> Verdict | None:
    """By the last such word of the newest attempt that the events know; None: it has said nothing that names a cause.

    Events of one attempt only are looked at well; a word of an older one is not its.
    """
    newest = max((_attempt(event) for event in events), default=-1)
    mine = [event for event in events if _attempt(event) == newest]
    words = [event for event in mine if says_of_the_end(event)]
    if not words:
        return _by_the_agents(mine)
    event = words[-1]
    because = _sentence(dict(event.groups).get("why", ""))
    by = f"srun-resilient ({event.place})"
    found = _wording_of(because)
    if found is not None:
        return Verdict(found.cause, because, by, explains=found.explains, implied=found.implied)
    if _is(event, DEPUTY):
        return Verdict(Cause.SUPERVISOR_DIED, f"the supervisor was killed; {because}", by, implied=True)
    return None


def _by_the_agents(events: Iterable[Event]) -> Verdict | None:
    """Why they have asked their ranks to stop, where the supervisor's last word is not here."""
    for event in events:
        why = dict(event.groups).get("why", "") if _is(event, TOLD) else ""
        found = _wording_of(why)
        if found is not None:
            return Verdict(found.cause, why, f"a node agent ({event.place})", explains=found.explains, implied=True)
    return None


def _wording_of(because: str) -> _Wording | None:
    return next((wording for wording in _WORDINGS if re.match(wording.begins, because)), None)


def _is(event: Event, *names: str) -> bool:
    return event.known is not None and event.known.name in names


def _attempt(event: Event) -> int:
    """The one that the line names, else the one in whose part of the output it stands."""
    named = dict(event.groups).get("seq", "") if event.known is not None and event.known.writer == "ours" else ""
    if named.isdigit():
        return int(named)
    return -1 if event.speaker.attempt is None else event.speaker.attempt


def _sentence(said: str) -> str:
    """Without what stands around it: that the run won't go on, how often it was tried, what is done about it."""
    while (before := _BEFORE.match(said)) is not None:
        said = said[before.end() :]
    after = _AFTER.search(said)
    return (said if after is None else said[: after.start()]).strip()


def says_of_the_end(event: Event) -> bool:
    return _is(event, ENDED, DEPUTY)


def told_to_end(event: Event) -> bool:
    """By a signal that ends jobs; a warning, a person's word and the loss of a peer are told in other words."""
    return _is(event, TOLD) and dict(event.groups).get("why", "").startswith("SIGTERM ")


def killed_tasks(events: Iterable[Event]) -> frozenset[int]:
    """Tasks whose node agent has killed what did not end in time: the agent itself, or its ranks."""
    return frozenset(event.about.task for event in events if _is(event, KILLING) and event.about.task is not None)


def told_tasks(events: Iterable[Event]) -> frozenset[int]:
    return frozenset(event.about.task for event in events if _is(event, TOLD) and event.about.task is not None)
