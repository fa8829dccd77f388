"""What the ranks' exceptions, the output's lines and the failed saves say of the end: the last to be believed. Pure.

An explicit error explains more than a wait in vain, that one more than a peer's death as others saw it; among equals
the earliest counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.manifest.records import Cause
from slurm_resilience.triage.evidence import CLOCKS_AGREE_S, Evidence
from slurm_resilience.triage.finding import Finding, Source, Weight
from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.known.table import known
from slurm_resilience.triage.patterns import names_storage


@dataclass(frozen=True, slots=True)
class _Said:
    line: str
    cause: Cause
    role: Role
    known: bool
    """A pattern knows it; otherwise it is an exception like any other."""
    by_rank: bool
    time_s: float | None = None
    fatal: bool = True
    """It ended something; what a program only prints it may have lived through."""


def log_finding(evidence: Evidence) -> Finding | None:
    said = _said(evidence)
    waits = [at for at, one in enumerate(said) if one.role is Role.WAIT]
    first_wait = waits[0] if waits else len(said)
    for at, one in enumerate(said):
        # What a rank raises once its peers gave up on it may be of its own leaving.
        if one.role is Role.ROOT and (one.known or at < first_wait):
            return _finding(Weight.EXPLICIT if one.fatal else Weight.IMPLIED, one)
    if waits:
        wait = said[waits[0]]
        return _finding(Weight.BARE if _somebody_was_gone(evidence, wait) else Weight.IMPLIED, wait)
    cascade = next((one for one in said if one.role is Role.CASCADE), None)
    return None if cascade is None else _finding(Weight.BARE, cascade)


def _somebody_was_gone(evidence: Evidence, wait: _Said) -> bool:
    """A node that is silent, or whose command ended before others gave up on it, explains why they waited for it."""
    if evidence.silent or len(evidence.agents) < evidence.agents_expected:
        return True
    ended_s = [agent.ended_s for agent in evidence.failed_first if agent.ended_s is not None]
    return wait.time_s is not None and any(end_s < wait.time_s - CLOCKS_AGREE_S for end_s in ended_s)


def saves_finding(evidence: Evidence) -> Finding | None:
    """An attempt that dies after saves which a file system had refused: the least of all witnesses."""
    refused = [why for why in evidence.saves_failed if names_storage(why)]
    if not refused or evidence.asked_to_stop:
        return None
    because = f"the attempt died after a save that a file system had refused: {refused[-1]}"
    return Finding(Source.SAVES, Weight.IMPLIED, Cause.STORAGE, because, refused[-1])


def _said(evidence: Evidence) -> list[_Said]:
    """What can be why, the ranks' exceptions first: they have times, and what is only printed has none."""
    said: list[_Said] = []
    for at, line in enumerate(evidence.rank_errors):
        time_s = evidence.rank_errors_s[at] if at < len(evidence.rank_errors_s) else None
        if not evidence.came_first(time_s):
            continue
        pattern = known(line)
        if pattern is None:
            said.append(_Said(line, Cause.CRASHED, Role.ROOT, known=False, by_rank=True, time_s=time_s))
        else:
            said.append(_Said(line, pattern.cause, pattern.role, known=True, by_rank=True, time_s=time_s))
    for line in evidence.log_lines:
        pattern = known(line)
        # Slurm says itself why it ends a job; of everything else nobody knows whether it came before the stop.
        if pattern is not None and (pattern.writer == "slurm" or not evidence.asked_to_stop):
            fatal = pattern.writer in ("slurm", "kernel")
            said.append(_Said(line, pattern.cause, pattern.role, known=True, by_rank=False, fatal=fatal))
    return said


def _finding(weight: Weight, said: _Said) -> Finding:
    return Finding(Source.LOG, weight, said.cause, _because(said), said.line, said.role is Role.CASCADE)


def _because(said: _Said) -> str:
    who = "a rank raised" if said.by_rank else "the output says"
    if said.role is Role.CASCADE:
        return f"{who}: {said.line} (a peer's death as others see it; who died first left no word)"
    if said.role is Role.WAIT:
        return f"a rank waited in vain: {said.line}" if said.by_rank else f"{who}: {said.line}"
    if said.cause is Cause.STORAGE:
        return f"a file system said no: {said.line}"
    if said.cause is Cause.OUT_OF_MEMORY:
        return f"memory ran out: {said.line}"
    return f"{who}: {said.line}"
