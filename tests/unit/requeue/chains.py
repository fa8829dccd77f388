"""Chains of attempts, each as a few words: what it resumed from, what it saved, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointId,
    CheckpointQuarantined,
    CheckpointReleased,
    DecisionCarriedOut,
    Line,
    Record,
    RunCreated,
    RunId,
    SaveReason,
    SuccessorQueued,
    checkpoint_id,
)


@dataclass(frozen=True)
class Told:
    """One attempt. `cause` None: nobody has told its end."""

    cause: Cause | None = Cause.CRASHED
    saves: tuple[int, ...] = ()
    """Steps at which it committed a checkpoint."""
    resumed: CheckpointId | int | None = 0
    """0: a fresh start. None: it never came so far, or doesn't use the library."""
    decision: str = "requeue"
    carried_out: bool = True
    signature: str | None = None
    step: int | None = None
    job: str | None = "7"
    restart: int | None = None
    """None: one more than the attempt before."""
    quarantines: CheckpointId | None = None
    releases: CheckpointId | None = None
    """By a person, when it was over."""
    successor: str | None = None


def checkpoint(step: int, attempt: int) -> CheckpointId:
    return checkpoint_id(step, attempt)


def lines_of(attempts: Sequence[Told]) -> list[Record]:
    told: list[Record] = [RunCreated(RunId("r"), "n")]
    steps: dict[str | None, int] = {}
    for number, each in enumerate(attempts, 1):
        restart = number - 1 if each.restart is None else each.restart
        told.append(AttemptStarted(number, "batch", ("t",), "n1", each.job, restart))
        if each.resumed is not None:
            name = each.resumed if isinstance(each.resumed, str) else None
            told.append(AttemptResumed(number, name, steps.get(name, 0), 2))
        for step in each.saves:
            steps[checkpoint(step, number)] = step
            told.append(CheckpointCommitted(checkpoint(step, number), step, number, SaveReason.PERIODIC, 2, (), 1.0))
        if each.successor is not None:
            told.append(SuccessorQueued(number, each.successor))
        if each.quarantines is not None:
            told.append(CheckpointQuarantined(each.quarantines, number, "why"))
        if each.cause is not None:
            ended = AttemptEnded(
                number, each.cause, "because", (), each.decision, "its reason", 1, each.step, signature=each.signature
            )
            told += [ended, *([DecisionCarriedOut(number, "done")] if each.carried_out else [])]
        if each.releases is not None:
            told.append(CheckpointReleased(each.releases))
    return told


def chain_of(*attempts: Told) -> Chain:
    return Chain.of(Line(seq, float(seq), record) for seq, record in enumerate(lines_of(attempts), 1))
