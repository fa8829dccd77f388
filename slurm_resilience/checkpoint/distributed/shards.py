"""A state with DTensors as one of plain tensors, and back where nothing about the layout has changed.

    plain, notes = take_apart(state)            for the part; `to_state(notes)` goes in beside it
    state = put_back(plain, notes, layouts)     the same ranks, the same meshes, the same placements

Neither asks another rank, and neither copies an element. For any other layout see assembly.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from slurm_resilience.checkpoint.distributed.presence import dtensors_exist
from slurm_resilience.checkpoint.distributed.shard_notes import Layout, Mesh, ShardNote, ShardNotes
from slurm_resilience.checkpoint.distributed.tree import leaves, replaced
from slurm_resilience.errors import CheckpointMismatch


def take_apart(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, ShardNote]]:
    """`state` with every DTensor replaced by this rank's shard (a view), and what the shards were.

    A state without DTensors is handed back as it is. Raises CheckpointUnsupported, with the path, for a DTensor with
    partial sums.
    """
    if not dtensors_exist():
        return state, {}
    from slurm_resilience.checkpoint.distributed.layout import DTensor, Noting, local_of

    notes: dict[str, ShardNote] = {}
    noting = Noting()

    def apart(path: str, value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        notes[path] = noting.of(value, path)
        local = local_of(value)
        return local.requires_grad_() if value.requires_grad else local

    return replaced(state, apart), notes


@dataclass(frozen=True, slots=True)
class Layouts:
    """What is alive says how what is loaded has to lie."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """By path: plain tensors and DTensors."""
    folders: dict[str, torch.Tensor] = field(default_factory=dict)
    """By path: tensors below it that aren't in `tensors`, and have the same shape as this one, lie like this one."""

    def like(self, path: str, shape: tuple[int, ...]) -> torch.Tensor | None:
        found = self.tensors.get(path)
        if found is None:
            found = self.folders.get(path.rpartition("/")[0])
            if found is not None and tuple(found.shape) != shape:
                return None  # Adam's step beside its moments
        return found


def layouts_of(state: Mapping[str, Any], *, optimizers: Mapping[str, torch.optim.Optimizer] | None = None) -> Layouts:
    """From the `state_dict()`s of what is alive. A fresh optimizer has no state yet: its parameters stand for it.

    `optimizers` are those that keep their state by number (`optimizer.state_dict()`), by their path in `state`.
    """
    tensors = {path: leaf for path, leaf in leaves(dict(state)) if isinstance(leaf, torch.Tensor)}
    folders: dict[str, torch.Tensor] = {}
    for path, optimizer in (optimizers or {}).items():
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        folders.update({f"{path}/state/{number}": each for number, each in enumerate(parameters)})
    return Layouts(tensors, folders)


def put_back(plain: dict[str, Any], notes: ShardNotes, layouts: Layouts) -> dict[str, Any]:
    """The state that `take_apart` was given, if what is alive lies as the shards do: ask `why_not_alike` before.

    The shards become the DTensors' own memory. CheckpointMismatch for one that has no place.
    """
    if not notes:
        return plain
    from slurm_resilience.checkpoint.distributed.layout import DTensor, laid_out, mesh_of

    meshes = {mesh_of(mesh): mesh for mesh in {each.device_mesh for each in _all(layouts) if isinstance(each, DTensor)}}

    def back(path: str, value: Any) -> Any:
        note = notes.get(path)
        if note is None:
            return value
        alive = layouts.like(path, note.layout.shape)
        # Its own mesh where there is one: two may have the same ranks and differ in their device.
        mesh = alive.device_mesh if isinstance(alive, DTensor) else meshes.get(note.layout.mesh)
        if mesh is None:
            raise CheckpointMismatch(f"{path} lay on {_mesh_in_words(note.layout.mesh)}, and nothing alive does")
        made = laid_out(value.detach(), mesh, note.layout)
        return made.requires_grad_() if value.requires_grad else made

    state: dict[str, Any] = replaced(plain, back)
    return state


def why_not_alike(notes: ShardNotes, layouts: Layouts) -> str | None:
    """What lies otherwise than it did, in words; None where `put_back` is all that is needed."""
    if not dtensors_exist():
        return next((f"{path} is whole, and was cut into shards" for path in notes), None)
    from slurm_resilience.checkpoint.distributed.layout import DTensor, Noting

    noting = Noting()
    meshes = {noting.mesh_of(each.device_mesh) for each in _all(layouts) if isinstance(each, DTensor)}
    for path, tensor in layouts.tensors.items():
        if isinstance(tensor, DTensor) and path not in notes:
            return f"{path} is cut into shards, and was not"
    for path, note in notes.items():
        alive = layouts.like(path, note.layout.shape)
        if isinstance(alive, DTensor):
            layout = noting.of(alive, path).layout
            if layout != note.layout:
                return f"{path} lies otherwise: {_layout_in_words(layout)}, was {_layout_in_words(note.layout)}"
        elif alive is not None:
            return f"{path} is whole, and was cut into shards"
        elif note.layout.mesh not in meshes:
            return f"{path} lay on {_mesh_in_words(note.layout.mesh)}, and nothing alive does"
    return None


def _all(layouts: Layouts) -> list[torch.Tensor]:
    return [*layouts.tensors.values(), *layouts.folders.values()]


def _layout_in_words(layout: Layout) -> str:
    return f"{layout.shape} as {', '.join(layout.placements)} on {_mesh_in_words(layout.mesh)}"


def _mesh_in_words(mesh: Mesh) -> str:
    sizes = " x ".join(str(size) for size in mesh.shape)
    return f"a mesh of {sizes} ranks" + ("" if mesh.names is None else f" ({', '.join(mesh.names)})")
