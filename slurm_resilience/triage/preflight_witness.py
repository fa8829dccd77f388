"""What the attempt's own preflight says of its end. Pure.

A node that it leaves out is unhealthy as one that its own checks forbid: exit_witness.py tells of both.
"""

from __future__ import annotations

from slurm_resilience.manifest.preflight_verdict import Then
from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.evidence import Evidence
from slurm_resilience.triage.finding import Finding, Source, Weight


def preflight_finding(evidence: Evidence) -> Finding | None:
    verdict = evidence.preflight
    if verdict is None:
        return None
    match verdict.then:
        case Then.REFUSE:
            return Finding(Source.PREFLIGHT, Weight.EXPLICIT, Cause.PREFLIGHT, verdict.because)
        case Then.STOPPED:
            return Finding(Source.PERSON, Weight.EXPLICIT, Cause.OPERATOR_STOP, verdict.because)
        case Then.LEAVE_OUT | Then.GO_ON | Then.GO_ON_WITHOUT:
            return None


def preflights_words(evidence: Evidence) -> tuple[str, ...]:
    """For people, where it kept anything from going its way; warnings stand in its report."""
    verdict = evidence.preflight
    if verdict is None or verdict.then is Then.GO_ON:
        return ()
    said = [f"preflight: {verdict.because}"]
    said += [] if verdict.remedy is None else [f"preflight's remedy: {verdict.remedy}"]
    return tuple(said)
