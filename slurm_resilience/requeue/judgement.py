"""The end of an attempt, weighed whole: history, suspicion, decision. Pure: one call for who writes it down."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import CheckpointQuarantined
from slurm_resilience.requeue.decision import GOES_ON, Decision, Way, decide
from slurm_resilience.requeue.history import history_with
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.quarantine import Quarantine, suspect
from slurm_resilience.triage.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Judgement:
    decision: Decision
    quarantined: CheckpointQuarantined | None = None
    """To be written in the same write as the attempt's end, before it: a half of the two must not go on alone."""
    avoid: tuple[str, ...] = ()
    """Nodes that whatever goes on must not get."""


def judge(
    chain: Chain,
    number: int,
    diagnosis: Diagnosis,
    *,
    signature: str | None,
    last_step: int | None,
    way: Way,
    limits: Limits,
    queued_by_slurm: bool,
) -> Judgement:
    """What becomes of the run now that its attempt `number` is over.

    `signature`: of this death; None where it says nothing about the checkpoint. `last_step`: the last one completed.
    """
    suspicion = suspect(chain, number, signature, last_step, cause=diagnosis.cause, limits=limits)
    decision = decide(
        diagnosis,
        history_with(chain, number, diagnosis.cause),
        way=way,
        limits=limits,
        queued_by_slurm=queued_by_slurm,
        suspicion=suspicion,
    )
    avoid = diagnosis.avoid if isinstance(decision, GOES_ON) else ()
    return Judgement(decision, suspicion.record if isinstance(suspicion, Quarantine) else None, avoid)
