"""What Slurm's plugin (exit and health notes) and the exit code of the step say of the end. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from slurm_resilience.errors import EXIT_WILL_GO_ON
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S, Evidence
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.finding import Finding, Source, Weight
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.known.table import known

SRUN_OUT_OF_MEMORY = 253
"""What srun leaves with when Slurm saw a task run out of memory."""
_FAULTS = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"})
"""A program's own doing. SIGABRT is not among them: libraries end themselves by it once a peer is gone."""
_OF_OTHERS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGABRT", "SIGPIPE"})
"""What may be a consequence of somebody else's death."""
_ENDED = frozenset({JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL, JobState.PREEMPTED, JobState.DEADLINE})
"""By Slurm, whatever the batch script did."""


class Killer(enum.Enum):
    """Whose a SIGKILL was. A kill by a person and one by the kernel look the same: somebody else must know more."""

    SLURM = "Slurm"
    KERNEL = "the kernel, for want of memory"
    PEER = "somebody, after another task's end"
    NOBODY_KNOWS = "a person or a program"  # neither Slurm's word, nor short memory, nor a peer's death explains it


@dataclass(frozen=True, slots=True)
class Kill:
    by: Killer
    how: str
    """To be put behind "was killed by SIGKILL, "."""


def health_finding(evidence: Evidence) -> Finding | None:
    """A node whose own checks let no task of the job start: whatever else failed in that step failed for it."""
    if not evidence.unhealthy:
        return None
    because = "; ".join(str(note) for note in evidence.unhealthy)
    return Finding(Source.HEALTH, Weight.EXPLICIT, Cause.NODE_FAILURE, because)


def notes_finding(evidence: Evidence) -> Finding | None:
    """The first task that did not leave in order, unless it was asked to leave before."""
    note = first_failure(evidence)
    if note is None:
        return None
    kill = killer_of(note, evidence)
    if kill is not None:
        return _killed(note, kill, evidence)
    weight = Weight.EXPLICIT if note.last_signal in _FAULTS else Weight.BARE
    return _by_note(weight, Cause.CRASHED, f"{_who(note)} {how_it_ended(note)}")


def _killed(note: ExitNote, kill: Kill, evidence: Evidence) -> Finding | None:
    because = f"{_who(note)} {how_it_ended(note)}, {kill.how}"
    match kill.by:
        case Killer.KERNEL:
            return _by_note(Weight.EXPLICIT, Cause.OUT_OF_MEMORY, because)
        case Killer.SLURM if _time_was_over(note, evidence):
            return _by_note(Weight.IMPLIED, Cause.TIME_LIMIT, because)
        case Killer.SLURM:
            return None  # why Slurm did it, its record says
        case Killer.PEER | Killer.NOBODY_KNOWS:
            return _by_note(Weight.BARE, Cause.CRASHED, because)


def how_it_ended(note: ExitNote) -> str:
    if note.signal is not None:
        return f"was {'killed' if note.signal == 'SIGKILL' else 'ended'} by {note.signal}"
    behind = "" if note.last_signal is None else f": its command was ended by {note.last_signal}"
    return f"left with {note.code}{behind}"


def first_failure(evidence: Evidence) -> ExitNote | None:
    """The end that came first, and so may be why the others ended; None: it came after somebody had asked for it."""
    first = _root(evidence)
    return first if first is not None and evidence.came_first(first.time_s) else None


def _root(evidence: Evidence) -> ExitNote | None:
    """The first of all failures. Of nodes whose clocks can't tell, the one that is nobody's consequence."""
    failures = [note for note in evidence.exit_notes if note.code not in (0, EXIT_WILL_GO_ON)]
    if not failures:
        return None
    begin_s = min(note.time_s for note in failures)
    first_on: dict[str, ExitNote] = {}
    for note in sorted(failures, key=lambda note: note.time_s):
        if note.time_s <= begin_s + CLOCKS_AGREE_S:
            first_on.setdefault(note.node, note)  # one node's clock is right about its own order
    return min(first_on.values(), key=lambda note: (_suspicion(note), note.time_s))


def _suspicion(note: ExitNote) -> int:
    if note.last_signal in _FAULTS:
        return 0
    return 2 if note.last_signal in _OF_OTHERS else 1


def killer_of(note: ExitNote, evidence: Evidence) -> Kill | None:
    """None: neither it nor the command that it waited for was ended by SIGKILL."""
    if note.last_signal != "SIGKILL":
        return None
    root, memory = _root(evidence), _oom_record(evidence)
    slurms = _slurms_kill(note, evidence)
    if slurms is not None:
        return Kill(Killer.SLURM, slurms)
    if root is not None and root != note and not _together(root, note, memory):
        return Kill(Killer.PEER, f"after {_who(root)} had ended first")
    if memory is not None:
        return Kill(Killer.KERNEL, f"and {memory}")
    return Kill(Killer.NOBODY_KNOWS, "and nothing says by whom: not Slurm, no want of memory, no peer that died before")


def _together(root: ExitNote, note: ExitNote, memory: str | None) -> bool:
    """The kernel may end all tasks of a node at once (memory.oom.group)."""
    near = note.node == root.node and note.time_s - root.time_s <= CLOCKS_AGREE_S
    return memory is not None and near and root.last_signal == "SIGKILL"


def _slurms_kill(note: ExitNote, evidence: Evidence) -> str | None:
    """Slurm says SIGTERM first, and kills KillWait later; or the job's time was over; or its record has an end."""
    if _time_was_over(note, evidence):
        return "by Slurm: the job's time was over"
    asked_s = [time_s for agent in evidence.agents for name, time_s in agent.signals if name == "SIGTERM"]
    since_s = note.time_s - min(asked_s, default=note.time_s + 1)
    if since_s >= 0:
        return f"by Slurm: {since_s:.0f} s after its SIGTERM"
    record = evidence.record
    if record is None or record.end_s is None or note.time_s < record.end_s:
        return None
    return "by Slurm, which was ending the job" if record.completing or record.state in _ENDED else None


def _time_was_over(note: ExitNote, evidence: Evidence) -> bool:
    return evidence.end_s is not None and note.time_s >= evidence.end_s


def _by_note(weight: Weight, cause: Cause, because: str) -> Finding:
    return Finding(Source.EXIT_NOTES, weight, cause, because)


def _who(note: ExitNote) -> str:
    return f"task {note.rank} on {note.node}"


def _oom_record(evidence: Evidence) -> str | None:
    """A kill by the kernel and one by a person look the same: somebody else must have seen that memory was short."""
    if evidence.record is not None and evidence.record.state is JobState.OUT_OF_MEMORY:
        return "Slurm saw it run out of memory"
    if evidence.command_code == SRUN_OUT_OF_MEMORY:
        return "srun says that memory ran out"
    for line in evidence.log_lines:
        if _names_memory(line):
            return f"the log says: {line}"
    for note in evidence.health:
        for finding in note.findings:
            if _names_memory(finding):
                return f"a check of node {note.node} says: {finding}"
    return None


def _names_memory(line: str) -> bool:
    pattern = known(line)
    return pattern is not None and pattern.cause is Cause.OUT_OF_MEMORY and pattern.role is Role.ROOT


def step_finding(evidence: Evidence) -> Finding | None:
    """What the step's exit code says: srun gives the highest of all its tasks', so it is no word on what came first."""
    code = evidence.command_code
    if code == SRUN_OUT_OF_MEMORY:
        because = f"srun left with {code}: a task ran out of memory"
        return Finding(Source.COMMAND, Weight.EXPLICIT, Cause.OUT_OF_MEMORY, because)
    if code and not evidence.agents:
        because = f"the step left with {code} before any node agent started"
        return Finding(Source.COMMAND, Weight.BARE, Cause.CRASHED, because)
    return None


def nothing_explains(evidence: Evidence) -> str:
    """One sentence on an end that no witness explains."""
    if evidence.command_code in (0, EXIT_WILL_GO_ON) and evidence.agents:
        return "the command left in order, but nothing says that it finished or was asked to stop"
    if evidence.command_code == 0:
        return "the step left with 0, but no node agent left a record of it"
    return "nothing says how the attempt ended"
