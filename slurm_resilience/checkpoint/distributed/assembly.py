"""A state for what is alive now, out of shards that were cut otherwise: other ranks, meshes, placements, or none.

Every rank does this by itself and reads only the shards it needs; nothing is asked of other ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from slurm_resilience.checkpoint.distributed.layout import DTensor, Noting, local_of
from slurm_resilience.checkpoint.distributed.pieces import Piece, whole_of
from slurm_resilience.checkpoint.distributed.shards import Layouts
from slurm_resilience.checkpoint.distributed.shelf import Entry, Leaf, Saved, Shelf, counterpart, whole_at
from slurm_resilience.checkpoint.distributed.tree import replaced
from slurm_resilience.checkpoint.format.element_type import NUMPY_PREFIX
from slurm_resilience.errors import CheckpointMismatch


@dataclass(frozen=True, slots=True)
class _Copy:
    """A box of elements on its way: from a shard as it was read to one that is alive."""

    source_at: tuple[int, ...]
    target: torch.Tensor
    target_at: tuple[int, ...]
    sizes: tuple[int, ...]

    def carry_out(self, source: torch.Tensor) -> None:
        into, out_of = self.target, source
        for dim, length in enumerate(self.sizes):
            into = into.narrow(dim, self.target_at[dim], length)
            out_of = out_of.narrow(dim, self.source_at[dim], length)
        into.copy_(out_of)


def put_together(shelf: Shelf, skeleton: Mapping[str, Any], layouts: Layouts, *, nearest: int = 0) -> dict[str, Any]:
    """The state that `skeleton` (one part's, with `Leaf`s for tensors) describes, laid out as `layouts` says.

    A tensor that is alive at the same path is filled in place and is itself in the state; one that lies below a folder
    of `layouts` becomes a new DTensor like that; any other comes whole, on the CPU, as does what is not a shard and
    isn't alive. Where several ranks have the same shard, that of rank `nearest` is read. A shard belongs to the tensor
    of its name on the mesh that `skeleton`'s rank was in: with pipeline stages, give that of a rank in your stage.

    No element reaches a tensor that is alive before the whole shard it comes from was verified. If this raises, some
    may have been filled and others not. Raises CheckpointMismatch for shapes that differ, and what `shelf` raises.
    """
    assembling = _Assembling(shelf, layouts, nearest)
    state: dict[str, Any] = replaced(dict(skeleton), assembling.place)
    with torch.no_grad():
        for entry, value in shelf.read(list(assembling.copies), shared=assembling.shared):
            for copy in assembling.copies[entry]:
                copy.carry_out(value)
    if not assembling.arrays:
        return state
    arrays = dict(shelf.read(list(assembling.arrays)))
    with_arrays: dict[str, Any] = replaced(
        state, lambda _, leaf: arrays[leaf.entry] if isinstance(leaf, _Array) else leaf
    )
    return with_arrays


@dataclass(frozen=True, slots=True)
class _Array:
    entry: Entry


class _Assembling:
    def __init__(self, shelf: Shelf, layouts: Layouts, nearest: int) -> None:
        self.copies: dict[Entry, list[_Copy]] = {}
        self.arrays: dict[Entry, None] = {}
        self.shared: set[Entry] = set()
        self._shelf = shelf
        self._layouts = layouts
        self._nearest = nearest
        self._noting = Noting()
        self._made: dict[tuple[str, int | None], torch.Tensor] = {}

    def place(self, path: str, leaf: Any) -> Any:
        if not isinstance(leaf, Leaf):
            return leaf
        own = self._shelf.entry_of(leaf)
        if own.dtype.startswith(NUMPY_PREFIX):
            self.arrays[own] = None
            return _Array(own)
        saved = whole_at(own, nearest=self._nearest)
        alive = self._layouts.tensors.get(path)
        if alive is not None:
            if tuple(alive.shape) != saved.shape:
                raise CheckpointMismatch(f"{path} has the shape {tuple(alive.shape)}, saved was {saved.shape}")
            self._fill(path, alive, own, saved)
            return alive
        pattern = self._layouts.like(path, saved.shape)
        known = (leaf.name, None if pattern is None else id(pattern))
        if known not in self._made:  # else tied to one that was met before: they share their memory again
            self._made[known] = _new(saved, pattern)
            self._fill(path, self._made[known], own, saved)
        made = self._made[known]
        return made.detach().requires_grad_() if leaf.requires_grad else made

    def _fill(self, path: str, target: torch.Tensor, own: Entry, saved: Saved) -> None:
        pieces: tuple[Piece, ...] | None = whole_of(saved.shape)
        local = target.detach()
        if isinstance(target, DTensor):
            pieces, local = self._noting.of(target, path).pieces, local_of(target)
        if pieces is None:
            raise CheckpointMismatch(
                f"{path} is cut unevenly in strides now, and was cut otherwise: it can't be filled"
            )
        missing = sum(piece.elements for piece in pieces)
        copied = not isinstance(target, DTensor) or any(placement.is_replicate() for placement in target.placements)
        for rank, copy in _copies(path, saved, pieces, local):
            entry = counterpart(self._shelf, own, rank)
            self.copies.setdefault(entry, []).append(copy)
            if copied:
                self.shared.add(entry)
            missing -= Piece((), (), copy.sizes).elements
        if missing:
            raise CheckpointMismatch(f"{missing} elements of {path} are in none of the parts")


def _new(saved: Saved, pattern: torch.Tensor | None) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, saved.dtype)
    if isinstance(pattern, DTensor):
        return torch.empty_like(pattern.detach(), dtype=dtype)
    return torch.empty(saved.shape, dtype=dtype)


def _copies(path: str, saved: Saved, pieces: tuple[Piece, ...], local: torch.Tensor) -> list[tuple[int, _Copy]]:
    """Which boxes of which saved shards make up `pieces` of the tensor; the arithmetic is torch's planner's."""
    metadata = TensorStorageMetadata(
        properties=TensorProperties(),
        size=torch.Size(saved.shape),
        chunks=[_chunk(piece) for _, piece in saved.boxes],
    )
    found: list[tuple[int, _Copy]] = []
    for item in create_read_items_for_chunk_list(path, metadata, [_chunk(piece) for piece in pieces]):
        rank, source = saved.boxes[item.storage_index.index or 0]
        into = pieces[item.dest_index.index or 0]
        copy = _Copy(
            source_at=_sum(source.local, item.storage_offsets),
            target=local,
            target_at=_sum(into.local, item.dest_offsets),
            sizes=tuple(item.lengths),
        )
        found.append((rank, copy))
    return found


def _chunk(piece: Piece) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=torch.Size(piece.whole), sizes=torch.Size(piece.sizes))


def _sum(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))
