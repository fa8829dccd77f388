"""What is written beside a state whose tensors were shards: which part of which whole tensor each of them is.

Plain numbers and text, kept in the part itself. Knows no torch, so that it can be read where torch is broken.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_resilience.checkpoint.distributed.pieces import Cut, Piece, pieces_of


@dataclass(frozen=True, slots=True)
class Mesh:
    """A device mesh: its `ranks` in C order. Ranks that differ only along a dimension that copies hold the same."""

    shape: tuple[int, ...]
    names: tuple[str, ...] | None
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies on a mesh."""

    shape: tuple[int, ...]
    """Of the whole tensor."""
    stride: tuple[int, ...]
    mesh: Mesh
    placements: tuple[str, ...]
    """One a mesh dimension: `R` copies it, `S(0)` cuts its dimension 0, `S(0)/4` cuts it in 4 rounds (strided)."""

    def pieces_at(self, coordinate: Sequence[int]) -> tuple[Piece, ...] | None:
        """See `pieces_of`."""
        return pieces_of(self.shape, self.mesh.shape, coordinate, [_cut(text) for text in self.placements])


@dataclass(frozen=True, slots=True)
class ShardNote:
    dtype: str
    layout: Layout
    pieces: tuple[Piece, ...] | None
    """What this rank holds. None: can't be said in boxes (see `pieces_of`), only the same layout can take it back."""


ShardNotes = Mapping[str, ShardNote]
"""By the shard's path through the state, as the part names it."""


@functools.lru_cache(maxsize=1024)  # of a thousand tensors most have the shape of another
def pieces_by_rank(layout: Layout) -> Mapping[int, tuple[Piece, ...]] | None:
    """Which rank holds what; copies too. None: see `pieces_of`."""
    found: dict[int, tuple[Piece, ...]] = {}
    coordinates = itertools.product(*(range(size) for size in layout.mesh.shape))
    for rank, coordinate in zip(layout.mesh.ranks, coordinates, strict=True):
        pieces = layout.pieces_at(coordinate)
        if pieces is None:
            return None
        found[rank] = pieces
    return found


def to_state(notes: ShardNotes) -> dict[str, Any]:
    """For the state, beside the shards: dicts, lists, numbers, text. What many shards have in common is there once."""
    meshes: dict[Mesh, int] = {}
    different: dict[ShardNote, int] = {}
    shards = {path: different.setdefault(note, len(different)) for path, note in notes.items()}
    return {
        "shards": shards,
        "notes": [
            {
                "dtype": note.dtype,
                "shape": list(note.layout.shape),
                "stride": list(note.layout.stride),
                "mesh": meshes.setdefault(note.layout.mesh, len(meshes)),
                "placements": list(note.layout.placements),
                "pieces": None
                if note.pieces is None
                else [[list(piece.whole), list(piece.local), list(piece.sizes)] for piece in note.pieces],
            }
            for note in different
        ],
        "meshes": [
            {
                "shape": list(mesh.shape),
                "names": None if mesh.names is None else list(mesh.names),
                "ranks": list(mesh.ranks),
            }
            for mesh in meshes
        ],
    }


def from_state(state: Mapping[str, Any]) -> dict[str, ShardNote]:
    """What `to_state` was given. LookupError, TypeError or ValueError for anything that it doesn't make."""
    meshes = [
        Mesh(
            shape=_numbers(mesh["shape"]),
            names=None if mesh["names"] is None else tuple(str(name) for name in mesh["names"]),
            ranks=_numbers(mesh["ranks"]),
        )
        for mesh in state["meshes"]
    ]
    notes = [_note(note, meshes) for note in state["notes"]]
    return {path: notes[number] for path, number in state["shards"].items()}


def _note(note: Mapping[str, Any], meshes: Sequence[Mesh]) -> ShardNote:
    pieces = note["pieces"]
    return ShardNote(
        dtype=note["dtype"],
        layout=Layout(
            shape=_numbers(note["shape"]),
            stride=_numbers(note["stride"]),
            mesh=meshes[note["mesh"]],
            placements=tuple(_placement(text) for text in note["placements"]),
        ),
        pieces=None
        if pieces is None
        else tuple(Piece(_numbers(whole), _numbers(local), _numbers(sizes)) for whole, local, sizes in pieces),
    )


def parts_of(placement: str) -> tuple[int, int] | None:
    """Dimension and rounds of a placement that cuts; None of one that copies. ValueError for an unknown one."""
    if placement == "R":
        return None
    found = re.fullmatch(r"S\((\d+)\)(?:/(\d+))?", placement)
    if found is None:
        raise ValueError(f"{placement[:40]!r} is no placement")
    return int(found[1]), int(found[2] or 1)


def _cut(placement: str) -> Cut | None:
    parts = parts_of(placement)
    return None if parts is None else Cut(*parts)


def _placement(value: Any) -> str:
    text = str(value)
    parts_of(text)
    return text


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
