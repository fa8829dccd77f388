"""Which elements of a whole tensor a shard holds, as boxes. Pure numbers: knows no torch.

A mesh dimension cuts a tensor's dimension as `torch.chunk` does; a *strided* cut (what FSDP leaves beside tensor
parallelism) deals `split` smaller chunks to each. So a shard may hold several runs of a dimension: it is a list of
boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

_Run = tuple[int, int]
"""First index, and how many."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A mesh dimension that divides dimension `dim` of the tensor; in `split` rounds if it is strided."""

    dim: int
    split: int = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of elements: where it begins in the whole tensor, where in the shard, and how long it is each way."""

    whole: tuple[int, ...]
    local: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


def pieces_of(
    shape: Sequence[int], mesh_shape: Sequence[int], coordinate: Sequence[int], cuts: Sequence[Cut | None]
) -> tuple[Piece, ...] | None:
    """What lies at `coordinate` of the mesh of a tensor of `shape`, cut by each mesh dimension in turn (None: copied).

    None where nobody can say: FSDP cuts what tensor parallelism left, the placements say the reverse, and the two are
    the same only where a strided cut comes out even.
    """
    runs: list[list[_Run]] = [[(0, size)] if size else [] for size in shape]
    for shares, index, cut in zip(mesh_shape, coordinate, cuts, strict=True):
        if cut is None:
            continue
        if cut.split > 1 and _length(runs[cut.dim]) % (shares * cut.split):
            return None
        runs[cut.dim] = _share(runs[cut.dim], shares, index, cut.split)
    return tuple(
        Piece(
            whole=tuple(start for start, _, _ in box),
            local=tuple(local for _, local, _ in box),
            sizes=tuple(length for _, _, length in box),
        )
        for box in itertools.product(*(_with_local_starts(each) for each in runs))
    )


def whole_of(shape: Sequence[int]) -> tuple[Piece, ...]:
    """The one piece of a tensor that isn't cut; none if it has no elements."""
    nowhere = (0,) * len(shape)
    return (Piece(nowhere, nowhere, tuple(shape)),) if math.prod(shape) else ()


def local_shape(shape: Sequence[int], pieces: Sequence[Piece]) -> tuple[int, ...]:
    """How large the shard is that `pieces` make up; the dimensions of one without elements aren't in its pieces."""
    return tuple(max((piece.local[dim] + piece.sizes[dim] for piece in pieces), default=0) for dim in range(len(shape)))


def _share(runs: list[_Run], shares: int, index: int, split: int) -> list[_Run]:
    """The `index`-th share, in torch.chunk's sense: all are as long as the first, while there is something left."""
    length = _length(runs)
    step = -(-length // (shares * split))
    found: list[_Run] = []
    for turn in range(index, shares * split, shares):
        found.extend(_between(runs, min(turn * step, length), min((turn + 1) * step, length)))
    return _joined(found)


def _between(runs: list[_Run], start: int, end: int) -> list[_Run]:
    found: list[_Run] = []
    passed = 0
    for first, length in runs:
        low, high = max(start - passed, 0), min(end - passed, length)
        if low < high:
            found.append((first + low, high - low))
        passed += length
    return found


def _joined(runs: list[_Run]) -> list[_Run]:
    joined: list[_Run] = []
    for start, length in runs:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    return joined


def _with_local_starts(runs: list[_Run]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    local = 0
    for start, length in runs:
        found.append((start, local, length))
        local += length
    return found


def _length(runs: list[_Run]) -> int:
    return sum(length for _, length in runs)
