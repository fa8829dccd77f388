"""Why an attempt ended. Pure: evidence in, a cause with its reasons out.

Each witness says at most one thing. What names the cause outranks what only implies it, and that what only says that
something ended; among equals the witness of more trust is believed (finding.py has the order). What lost is listed. A
witness that is missing is never good news. docs/causes.md has the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.agent_witness import a_persons_stop, agents_finding, everybody_finished
from slurm_resilience.triage.evidence import END_OF_TIME_S, Evidence
from slurm_resilience.triage.exit_notes import signal_name
from slurm_resilience.triage.exit_witness import (
    first_failure,
    health_finding,
    notes_finding,
    nothing_explains,
    step_finding,
)
from slurm_resilience.triage.finding import Finding, Source, Weight, rank
from slurm_resilience.triage.log_witness import log_finding, saves_finding
from slurm_resilience.triage.preflight_witness import preflight_finding
from slurm_resilience.triage.signature import signature
from slurm_resilience.triage.slurm_witness import slurms_finding
from slurm_resilience.triage.testimony import testimony

__all__ = ["END_OF_TIME_S", "Diagnosis", "Evidence", "diagnose"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    cause: Cause
    because: str
    evidence: tuple[str, ...]
    outranked: tuple[str, ...] = ()
    """What other witnesses would have said, one sentence each."""
    signature: str | None = None
    """The same for two deaths of one kind; None: this one says nothing about what was loaded."""
    avoid: tuple[str, ...] = ()
    """Nodes that must not be used again, whatever ended the attempt."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """The cause with one sentence of why, all witnesses for it, and what was not believed."""
    findings = sorted(_findings(evidence), key=rank)
    believed = findings[0] if findings else _unexplained(evidence)
    return Diagnosis(
        believed.cause,
        believed.because,
        testimony(evidence),
        tuple(_outranked(lost, believed) for lost in findings[1:] if _contradicts(lost, believed)),
        _signature(evidence, findings, believed),
        tuple(dict.fromkeys(note.node for note in evidence.unhealthy)),
    )


def _findings(evidence: Evidence) -> list[Finding]:
    said = (
        _journals_finding(evidence),
        a_persons_stop(evidence),
        slurms_finding(evidence),
        health_finding(evidence),
        preflight_finding(evidence),
        notes_finding(evidence),
        agents_finding(evidence),
        step_finding(evidence),
        log_finding(evidence),
        saves_finding(evidence),
    )
    return [finding for finding in said if finding is not None]


def _journals_finding(evidence: Evidence) -> Finding | None:
    """What the run's own files prove: nobody can outrank them."""
    if evidence.training_finished:
        cause, because = Cause.FINISHED, "the training came to its own end"
    elif everybody_finished(evidence):
        cause, because = Cause.FINISHED, "the command left with 0 on every node, unasked"
    elif evidence.fenced:
        cause, because = Cause.FENCED, "a newer attempt of the run has started"
    else:
        return None
    return Finding(Source.JOURNAL, Weight.EXPLICIT, cause, because)


def _unexplained(evidence: Evidence) -> Finding:
    if evidence.supervisor_died:
        because = "the supervisor was killed while the training ran"
        return Finding(Source.COMMAND, Weight.BARE, Cause.SUPERVISOR_DIED, because)
    return Finding(Source.COMMAND, Weight.BARE, Cause.UNKNOWN, nothing_explains(evidence))


def _contradicts(lost: Finding, believed: Finding) -> bool:
    """A bare one names no cause: there is nothing that it could have lost."""
    return lost.cause is not believed.cause and lost.weight is not Weight.BARE


def _outranked(lost: Finding, believed: Finding) -> str:
    return f"{lost.source.value}: {lost.because} ({lost.cause.value}); {believed.source.value} was believed"


def _signature(evidence: Evidence, findings: list[Finding], believed: Finding) -> str | None:
    """Of the line that says so, whichever witness has it; of how the first one left where no line does."""
    lines = [finding for finding in findings if finding.cause is believed.cause and finding.words]
    root = next((finding for finding in lines if not finding.cascade), None)
    if root is None and lines and first_failure(evidence) is None:
        return None  # all that is known is that somebody else died first
    nodes = [agent.host for agent in evidence.agents] + [note.node for note in evidence.exit_notes]
    return signature(believed.cause, root.words if root is not None else None, _how(evidence), nodes)


def _how(evidence: Evidence) -> str | None:
    """How the first one left, in two words."""
    note = first_failure(evidence)
    if note is not None:
        return note.last_signal or f"exit {note.code}"
    codes = [agent.command_code for agent in evidence.failed_first if agent.command_code]
    code = codes[0] if codes else evidence.command_code
    if not code:
        return None
    return signal_name(code - 128) if 128 < code < 160 else f"exit {code}"
