"""The shards of all ranks, to choose from: what put_together needs to know of a checkpoint's parts.

An `Entry` is one tensor of one part, a `Leaf` the place of one in a state. `Shelf` is the door to them; parts.py has
the one that reads our files.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slurm_resilience.checkpoint.distributed.pieces import Piece, whole_of
from slurm_resilience.checkpoint.distributed.shard_notes import ShardNote, pieces_by_rank
from slurm_resilience.errors import CheckpointMismatch


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor as it lies in the part of `rank`, under `name`, and which elements of the whole one it has."""

    rank: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: bytes
    note: ShardNote | None = field(hash=False)
    """None: it is not a shard."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a tensor or array was in the state of `rank`. Its elements are on the shelf under `name`."""

    rank: int
    name: str
    requires_grad: bool = False

    # As a tensor has them: the structure is rebuilt with these in the tensors' places.
    def detach(self) -> Leaf:
        return self

    def requires_grad_(self) -> Leaf:
        return Leaf(self.rank, self.name, requires_grad=True)


class Shelf(Protocol):
    def entry_of(self, leaf: Leaf) -> Entry:
        """Raises CheckpointMismatch where there is no such part or tensor, and as `read` does."""

    def read(self, wanted: Sequence[Entry], *, shared: Container[Entry] = ()) -> Iterator[tuple[Entry, Any]]:
        """Each of `wanted`, in any order, its elements verified: a tensor (or array) on the CPU, in memory of its own.

        What is in `shared` other ranks are likely to read just now, too.
        Raises CheckpointDamaged, CheckpointUnsupported and CheckpointUnavailable.
        """


@dataclass(frozen=True, slots=True)
class Saved:
    """A whole tensor, and the boxes that make it up, each once, with the rank in whose part it is to be read."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    boxes: tuple[tuple[int, Piece], ...]


def whole_at(own: Entry, *, nearest: int) -> Saved:
    """The whole tensor that `own` is a part of, by its note alone: no other part is looked at.

    Of ranks with the same box `nearest` is taken, else the first. CheckpointMismatch where nobody can say.
    """
    if own.note is None:
        return Saved(own.name, own.dtype, own.shape, tuple((own.rank, piece) for piece in whole_of(own.shape)))
    layout = own.note.layout
    by_rank = pieces_by_rank(layout)
    if by_rank is None or own.note.pieces is None:
        raise _only_as_it_lay(own)
    boxes: dict[tuple[object, ...], tuple[int, Piece]] = {}
    for rank, pieces in by_rank.items():
        for piece in pieces:
            if rank == nearest:
                boxes[piece.whole, piece.sizes] = (rank, piece)
            else:
                boxes.setdefault((piece.whole, piece.sizes), (rank, piece))
    return Saved(own.name, own.dtype, layout.shape, tuple(boxes.values()))


def counterpart(shelf: Shelf, own: Entry, rank: int) -> Entry:
    """The shard of the same tensor in the part of `rank`. CheckpointMismatch where that says it is something else."""
    if rank == own.rank:
        return own
    entry = shelf.entry_of(Leaf(rank, own.name))
    if entry.note is None or own.note is None or (entry.note.layout, entry.dtype) != (own.note.layout, own.dtype):
        raise CheckpointMismatch(f"{own.name} is not the same tensor in the parts of rank {own.rank} and rank {rank}")
    if entry.note.pieces is None:
        raise _only_as_it_lay(entry)
    return entry


def _only_as_it_lay(entry: Entry) -> CheckpointMismatch:
    placements = "" if entry.note is None else f" ({', '.join(entry.note.layout.placements)})"
    return CheckpointMismatch(f"{entry.name} was cut unevenly in strides{placements}: it can only be loaded as it lay")


def differing(entries: Sequence[Entry]) -> list[str]:
    """Names of whole tensors whose content isn't the same in every part that has them: not replicas, then.

    Buffers under DDP may differ (rank 0's are the ones that count); parameters may not.
    """
    first: dict[str, Entry] = {}
    found: dict[str, None] = {}
    for entry in entries:
        if entry.note is None:
            known = first.setdefault(entry.name, entry)
            if (known.dtype, known.shape, known.checksum) != (entry.dtype, entry.shape, entry.checksum):
                found[entry.name] = None
    return list(found)
