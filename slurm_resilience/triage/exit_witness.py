"""What the exit notes of the tasks and the exit code of the step say of the end. Pure."""

from __future__ import annotations

from slurm_resilience.errors import EXIT_WILL_GO_ON
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobState
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.exit_notes import ExitNote
from slurm_resilience.triage.finding import Finding, Source, Weight
from slurm_resilience.triage.patterns import Role, pattern_of

SRUN_OUT_OF_MEMORY = 253
"""What srun leaves with when Slurm saw a task run out of memory."""
_FAULTS = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"})
"""A program's own doing. SIGABRT is not among them: libraries end themselves by it once a peer is gone."""


def notes_finding(evidence: Evidence) -> Finding | None:
    """The first task that did not leave in order, unless it was asked to leave before."""
    note = first_failure(evidence)
    if note is None:
        return None
    if note.signal is None:
        return _by_note(Weight.BARE, Cause.CRASHED, f"{_who(note)} left with {note.code}")
    if note.signal == "SIGKILL":
        record = _oom_record(evidence)
        if record is not None:
            return _by_note(Weight.EXPLICIT, Cause.OUT_OF_MEMORY, f"{_who(note)} was killed by SIGKILL, and {record}")
        return _by_note(Weight.BARE, Cause.CRASHED, f"{_who(note)} was killed by SIGKILL, and nothing says by whom")
    weight = Weight.EXPLICIT if note.signal in _FAULTS else Weight.BARE
    return _by_note(weight, Cause.CRASHED, f"{_who(note)} was ended by {note.signal}")


def first_failure(evidence: Evidence) -> ExitNote | None:
    failures = [note for note in evidence.exit_notes if note.code not in (0, EXIT_WILL_GO_ON)]
    first = min(failures, key=lambda note: note.time_s, default=None)
    return first if first is not None and evidence.came_first(first.time_s) else None


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
        pattern = pattern_of(line)
        if pattern is not None and pattern.cause is Cause.OUT_OF_MEMORY and pattern.role is Role.ROOT:
            return f"the log says: {line}"
    return None


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
