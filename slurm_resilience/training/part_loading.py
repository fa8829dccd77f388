"""This rank's state from a checkpoint's parts: its own as it is, or put together for another layout or world size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slurm_resilience.checkpoint.distributed.presence import SHARDS, dtensors_exist
from slurm_resilience.checkpoint.store import CheckpointStore, PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointMismatch
from slurm_resilience.manifest.receipts import receipt_of
from slurm_resilience.manifest.records import CheckpointCommitted

if TYPE_CHECKING:
    from slurm_resilience.checkpoint.distributed.shards import Layouts


def receipts_of(committed: CheckpointCommitted) -> list[PartReceipt]:
    return [receipt_of(part) for part in committed.parts]


class PartLoading:
    """For one rank. Talks to no other: every rank can choose its way alone."""

    def __init__(
        self, store: CheckpointStore, *, rank: int, world_size: int, alive: Callable[[], Layouts], may_change: bool
    ) -> None:
        """`alive` tells how the training's own tensors lie; `may_change` whether the number of ranks may be another."""
        self._store = store
        self._rank = rank
        self._world_size = world_size
        self._alive = alive
        self._may_change = may_change
        self.spoilt = False
        """A load that failed may have left its traces in the training's own tensors."""

    def refusal(self, committed: CheckpointCommitted) -> str | None:
        """Why it can't be for this attempt, whatever its content; the same on all ranks."""
        if committed.world_size == self._world_size or self._may_change:
            return None
        return (
            f"checkpoint {committed.checkpoint} was written by {in_words(committed.world_size)} and this attempt has "
            f"{self._world_size}: start it with {in_words(committed.world_size)}, or allow another number by "
            "SLURM_RESILIENCE_WORLD_SIZE_MAY_CHANGE=yes"
        )

    def load(self, committed: CheckpointCommitted) -> dict[str, Any]:
        """Verified. Raises CheckpointDamaged, CheckpointUnsupported, CheckpointUnavailable, CheckpointMismatch."""
        receipts = {receipt.rank: receipt for receipt in receipts_of(committed)}
        if len(receipts) != committed.world_size:
            raise CheckpointDamaged(
                self._store.path_of(next(iter(receipts.values()))).parent,
                f"the manifest names {len(receipts)} parts of {committed.world_size} for {committed.checkpoint}",
            )
        if committed.world_size == self._world_size:
            state = self._store.read_part(receipts[self._rank])
            if SHARDS not in state and not dtensors_exist():
                return state
            alike = self._as_it_lies(state)
            if alike is not None:
                return alike
        return self._put_together(list(receipts.values()), committed)

    def _as_it_lies(self, state: dict[str, Any]) -> dict[str, Any] | None:
        from slurm_resilience.checkpoint.distributed.shard_notes import from_state
        from slurm_resilience.checkpoint.distributed.shards import put_back, why_not_alike

        notes = from_state(state.get(SHARDS, {})) if SHARDS in state else {}
        alive = self._alive()
        if why_not_alike(notes, alive) is not None:
            return None
        plain = {name: value for name, value in state.items() if name != SHARDS}
        return put_back(plain, notes, alive)

    def _put_together(self, receipts: list[PartReceipt], committed: CheckpointCommitted) -> dict[str, Any]:
        from slurm_resilience.checkpoint.distributed.assembly import put_together
        from slurm_resilience.checkpoint.distributed.parts import PartsShelf
        from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
        from slurm_resilience.training.other_ranks import for_other_ranks

        if not isinstance(self._store, Hdf5Store):
            raise CheckpointMismatch(f"{committed.checkpoint} can't be put together from such a store")
        alive = self._alive()
        shelf = PartsShelf(self._store, receipts)
        rank = shelf.rank_with(alive, first=self._rank)
        self.spoilt = True
        state = put_together(shelf, shelf.skeleton(rank), alive, nearest=self._rank)
        state.pop(SHARDS, None)
        if committed.world_size != self._world_size:
            for_other_ranks(state, shelf, step=committed.step, saved_by=committed.world_size, rank=self._rank)
            if self._rank == 0:
                sys.stderr.write(
                    f"slurm-resilience: {committed.checkpoint} was written by {in_words(committed.world_size)} "
                    f"and goes on with {self._world_size}: random numbers begin anew\n"
                )
        self.spoilt = False
        return state


def in_words(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"
