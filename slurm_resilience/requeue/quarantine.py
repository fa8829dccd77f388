"""Whether it is the checkpoint that kills the attempts. Pure: the caller writes the record.

Two deaths of one signature soon after loading the same checkpoint: the state in it is whole, and poison. The run goes
back to the one before. "Soon" is before the attempt had a checkpoint of its own and within QUARANTINE_STEPS steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import Cause, CheckpointId, CheckpointQuarantined
from slurm_resilience.requeue.history import history_with
from slurm_resilience.requeue.limits import Limits

QUARANTINE_STEPS = 100
"""An attempt that got further than this from where it resumed did not die of what it had loaded."""
_FROM_SCRATCH = (
    "to begin at step 0 instead, put it aside with `slurm-resilience checkpoints quarantine` "
    "and start with `srun-resilient --from-scratch`"
)
SUSPICIOUS = (Cause.CRASHED, Cause.HUNG, Cause.UNKNOWN)
"""Not a full disk, a lost node or too little memory: an older state dies of these as well."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """To be written with the attempt's end; the next attempt goes on from step `back_to`."""

    record: CheckpointQuarantined
    back_to: int

    def __str__(self) -> str:
        return f"{self.record.why}; it is put into quarantine, and the run goes back to step {self.back_to}"


@dataclass(frozen=True, slots=True)
class NotPutAside:
    """A checkpoint is suspected, and is what the next attempt loads all the same."""

    checkpoint: CheckpointId
    why: str

    def __str__(self) -> str:
        return self.why


Suspicion = Union[Quarantine, NotPutAside]


def suspect(
    chain: Chain, number: int, signature: str | None, last_step: int | None, *, cause: Cause, limits: Limits
) -> Suspicion | None:
    """What to think of the checkpoint from which attempt `number` resumed, now that it has died.

    `signature`: of this death (None: it says nothing about the checkpoint). `last_step`: the last step it completed,
    where known. A pin keeps a checkpoint's files, not its turn: pinned ones are put aside, too.
    """
    attempt = chain.attempt(number)
    if attempt is None or signature is None or cause not in SUSPICIOUS or not _died_soon(attempt, last_step):
        return None
    resumed, loadable = attempt.resumed, chain.loadable()
    if resumed is None or resumed.checkpoint is None or not loadable:
        return None
    checkpoint = resumed.checkpoint
    if loadable[0].committed.checkpoint != checkpoint:
        return None  # the next attempt starts from something else anyway
    earlier = _earlier_death(chain, number, checkpoint, signature)
    if earlier is None:
        return None
    why = f"attempts {earlier} and {number} died the same way soon after loading {checkpoint} ({signature})"
    if len(loadable) == 1:
        return NotPutAside(checkpoint, f"{why}; it is the only checkpoint that can be loaded: {_FROM_SCRATCH}")
    put_aside = history_with(chain, number, cause).quarantines
    if put_aside >= limits.quarantines:
        count = f"quarantine {put_aside} of {limits.quarantines} since the last progress has not helped"
        return NotPutAside(checkpoint, f"{why}; {count}: it is hardly the checkpoint")
    return Quarantine(CheckpointQuarantined(checkpoint, number, why), loadable[1].committed.step)


def _earlier_death(chain: Chain, number: int, checkpoint: CheckpointId, signature: str) -> int | None:
    """An attempt before `number` that died of the same soon after loading `checkpoint`.

    What came before an attempt that got on with it, or before a person released it from a quarantine, is no proof.
    """
    for attempt in reversed(chain.attempts):
        if attempt.number >= number:
            continue
        if checkpoint in attempt.quarantined:
            return None
        if attempt.resumed is None or attempt.resumed.checkpoint != checkpoint or attempt.ended is None:
            continue
        if not _died_soon(attempt, attempt.ended.step):
            return None
        if attempt.ended.signature == signature and attempt.ended.cause in SUSPICIOUS:
            return attempt.number
    return None


def _died_soon(attempt: Attempt, last_step: int | None) -> bool:
    if attempt.resumed is None or attempt.checkpoints:
        return False
    return last_step is None or last_step - attempt.resumed.step <= QUARANTINE_STEPS
