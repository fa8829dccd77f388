"""What became of each checkpoint, as the manifest tells it. Pure: records in, values out."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slurm_resilience.checkpoint.retention import Live
from slurm_resilience.manifest.records import (
    CheckpointCommitted,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointId,
    CheckpointPinned,
    CheckpointPublished,
    CheckpointQuarantined,
    CheckpointReleased,
    CheckpointStaged,
    CheckpointUnpinned,
    CheckpointVerified,
)


class CheckpointState(enum.Enum):
    LIVE = "live"
    DAMAGED = "damaged"  # its content is not what was written: never loaded again, kept for a person
    QUARANTINED = "quarantined"  # whole, but attempts that loaded it died: a person may release it
    FORGOTTEN = "forgotten"  # its files are deleted, or about to be


@dataclass(frozen=True, slots=True)
class Checkpoint:
    committed: CheckpointCommitted
    time_s: float
    state: CheckpointState = CheckpointState.LIVE
    why: str | None = None
    """Of what is wrong with it, or of forgetting it."""
    pinned: str | None = None
    """Why a person wants it kept; None: retention may forget it."""
    verified: bool = False
    """Whether every byte of it was read once, and was what was written: by a resume, or by `checkpoints verify`."""
    published: tuple[str, ...] = ()
    """Where else it lies, in the order of getting there; true even when the files here are forgotten."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A copy in a second place: there as long as that is."""

    record: CheckpointStaged
    time_s: float
    durable: bool
    """Whether the checkpoint is committed, too; without that, this copy is all there is."""


def live_of(checkpoints: Iterable[Checkpoint]) -> list[Live]:
    """Those of a chain's `checkpoints` that retention decides about, in the same order."""
    return [
        Live(each.committed.checkpoint, each.committed.step, each.committed.metric, each.verified, each.pinned)
        for each in checkpoints
        if each.state is CheckpointState.LIVE
    ]


class CheckpointHistory:
    """The checkpoints of a run while its lines are being told. A fact told twice counts once."""

    def __init__(self) -> None:
        self._checkpoints: dict[CheckpointId, Checkpoint] = {}
        self._staged: dict[tuple[CheckpointId, str], tuple[CheckpointStaged, float]] = {}

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """In the order of their commits."""
        return tuple(self._checkpoints.values())

    def staged(self) -> tuple[Staged, ...]:
        return tuple(
            Staged(record, time_s, durable=record.checkpoint in self._checkpoints)
            for record, time_s in self._staged.values()
        )

    def commit(self, record: CheckpointCommitted, time_s: float) -> None:
        made = Checkpoint(record, time_s)
        known = self._checkpoints.get(record.checkpoint)
        if known is not None:
            # A person's word holds for the checkpoint made anew; what is known of the bytes only for the same bytes.
            made = replace(made, pinned=known.pinned)
            if known.committed.parts == record.parts:
                verified = known.verified and known.state is CheckpointState.LIVE
                made = replace(made, published=known.published, verified=verified)
        self._checkpoints[record.checkpoint] = made

    def hear(
        self,
        record: CheckpointStaged
        | CheckpointPublished
        | CheckpointVerified
        | CheckpointPinned
        | CheckpointUnpinned
        | CheckpointDamaged
        | CheckpointQuarantined
        | CheckpointReleased
        | CheckpointForgotten,
        time_s: float,
    ) -> None:
        match record:
            case CheckpointStaged():
                self._stage(record, time_s)
            case CheckpointPublished(checkpoint, where):
                self._publish(checkpoint, where)
            case CheckpointVerified(checkpoint):
                self.verify(checkpoint)
            case CheckpointPinned(checkpoint, why):
                self._pin(checkpoint, why)
            case CheckpointUnpinned(checkpoint):
                self._pin(checkpoint, None)
            case CheckpointDamaged(checkpoint, why=why):
                self._end(checkpoint, CheckpointState.DAMAGED, why)
            case CheckpointQuarantined(checkpoint, why=why):
                self._quarantine(checkpoint, why)
            case CheckpointReleased(checkpoint):
                self._release(checkpoint)
            case CheckpointForgotten(checkpoint, why):
                self._end(checkpoint, CheckpointState.FORGOTTEN, why)

    def verify(self, checkpoint: CheckpointId) -> None:
        known = self._checkpoints.get(checkpoint)
        if known is not None and known.state is CheckpointState.LIVE:
            self._checkpoints[checkpoint] = replace(known, verified=True)

    def _stage(self, record: CheckpointStaged, time_s: float) -> None:
        known = self._checkpoints.get(record.checkpoint)
        if known is None or known.state is CheckpointState.LIVE:
            self._staged.setdefault((record.checkpoint, record.where), (record, time_s))

    def _publish(self, checkpoint: CheckpointId, where: str) -> None:
        known = self._checkpoints.get(checkpoint)
        if known is not None and where not in known.published:
            self._checkpoints[checkpoint] = replace(known, published=(*known.published, where))

    def _pin(self, checkpoint: CheckpointId, why: str | None) -> None:
        known = self._checkpoints.get(checkpoint)
        if known is not None and known.state is not CheckpointState.FORGOTTEN:
            self._checkpoints[checkpoint] = replace(known, pinned=why)

    def _quarantine(self, checkpoint: CheckpointId, why: str) -> None:
        known = self._checkpoints.get(checkpoint)
        if known is not None and known.state is CheckpointState.LIVE:
            self._checkpoints[checkpoint] = replace(known, state=CheckpointState.QUARANTINED, why=why)

    def _release(self, checkpoint: CheckpointId) -> None:
        known = self._checkpoints.get(checkpoint)
        if known is not None and known.state is CheckpointState.QUARANTINED:
            self._checkpoints[checkpoint] = replace(known, state=CheckpointState.LIVE, why=None)

    def _end(self, checkpoint: CheckpointId, state: CheckpointState, why: str) -> None:
        # Copies in second places go with it: what is damaged must never be loaded from anywhere.
        self._staged = {key: told for key, told in self._staged.items() if key[0] != checkpoint}
        known = self._checkpoints.get(checkpoint)
        if known is None or known.state is CheckpointState.FORGOTTEN:  # forgotten is for good
            return
        pinned = None if state is CheckpointState.FORGOTTEN else known.pinned
        self._checkpoints[checkpoint] = replace(known, state=state, why=why, pinned=pinned, verified=False)
