"""Between torch's DTensors and our words for how they lie. The one door to DTensor's names, which have moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from slurm_resilience.checkpoint.distributed.pieces import local_shape
from slurm_resilience.checkpoint.distributed.shard_notes import Layout, Mesh, ShardNote, parts_of
from slurm_resilience.checkpoint.format.tensor import dtype_name
from slurm_resilience.errors import CheckpointUnsupported

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.placement_types import Placement, _StridedShard
else:
    try:
        from torch.distributed.tensor import DTensor, Replicate, Shard
        from torch.distributed.tensor.placement_types import Placement, _StridedShard
    except ImportError:  # torch 2.4
        from torch.distributed._tensor import DTensor, Replicate, Shard
        from torch.distributed._tensor.placement_types import Placement

        class _StridedShard:
            """There is none yet: FSDP beside tensor parallelism says `Shard` and means a strided one."""


_SAYS_STRIDES = issubclass(_StridedShard, Placement)

__all__ = ["DTensor", "Noting", "laid_out", "local_of", "mesh_of"]


def mesh_of(mesh: DeviceMesh) -> Mesh:
    names = mesh.mesh_dim_names
    ranks = mesh.mesh
    return Mesh(
        shape=tuple(int(size) for size in ranks.shape),
        names=None if names is None else tuple(names),
        ranks=tuple(int(rank) for rank in ranks.flatten().tolist()),
    )


class Noting:
    """Takes notes of DTensors, one of each kind: of a thousand most lie as another does."""

    def __init__(self) -> None:
        self._meshes: dict[DeviceMesh, Mesh] = {}
        self._notes: dict[tuple[Any, ...], ShardNote] = {}

    def mesh_of(self, mesh: DeviceMesh) -> Mesh:
        known = self._meshes.get(mesh)
        if known is None:
            known = self._meshes[mesh] = mesh_of(mesh)
        return known

    def of(self, tensor: DTensor, path: str) -> ShardNote:
        """Raises CheckpointUnsupported for a tensor whose ranks hold summands of it instead of elements."""
        mesh = self.mesh_of(tensor.device_mesh)
        local = tuple(local_of(tensor).shape)
        kind = (mesh, tensor.shape, tensor.stride(), tensor.placements, tensor.dtype, local)
        known = self._notes.get(kind)
        if known is None:
            known = self._notes[kind] = _note_of(tensor, mesh, local, path)
        return known


def _note_of(tensor: DTensor, mesh: Mesh, local: tuple[int, ...], path: str) -> ShardNote:
    layout = Layout(
        shape=tuple(int(size) for size in tensor.shape),
        stride=tuple(int(step) for step in tensor.stride()),
        mesh=mesh,
        placements=tuple(_in_words(placement, path) for placement in tensor.placements),
    )
    coordinate = tensor.device_mesh.get_coordinate()
    pieces = () if coordinate is None else layout.pieces_at(coordinate)  # this rank may be outside the mesh
    cuts = [parts[0] for text in layout.placements if (parts := parts_of(text)) is not None]
    if (pieces and local_shape(layout.shape, pieces) != local) or (len(set(cuts)) < len(cuts) and not _SAYS_STRIDES):
        pieces = None  # this shard was made by other rules than the placements say: only the same layout can take it
    return ShardNote(dtype_name(tensor), layout, pieces)


def local_of(tensor: DTensor) -> torch.Tensor:
    """The shard itself: a view, without gradient."""
    with torch.no_grad():
        plain: DTensor = tensor.detach() if isinstance(tensor, torch.nn.Parameter) else tensor  # type: ignore[assignment]
        local = plain.to_local()
        waited: torch.Tensor = local.wait() if hasattr(local, "wait") else local  # of a collective still under way
        return waited.detach()


def laid_out(local: torch.Tensor, mesh: DeviceMesh, layout: Layout) -> DTensor:
    """A DTensor whose shard here is `local`. Asks no other rank."""
    placements: Sequence[Placement] = [_placement(text) for text in layout.placements]
    made: DTensor = DTensor.from_local(
        local, mesh, placements, run_check=False, shape=torch.Size(layout.shape), stride=layout.stride
    )
    return made


def _in_words(placement: Placement, path: str) -> str:
    # In older versions of torch a strided shard is a shard, too.
    if isinstance(placement, _StridedShard):
        return f"S({placement.dim})/{placement.split_factor}"
    if isinstance(placement, Shard):
        return f"S({placement.dim})"
    if isinstance(placement, Replicate):
        return "R"
    raise CheckpointUnsupported(f"{path} can't be kept: it is a DTensor with the placement {placement}")


def _placement(text: str) -> Any:
    parts = parts_of(text)
    if parts is None:
        return Replicate()
    dim, split = parts
    return Shard(dim) if split == 1 else _StridedShard(dim, split_factor=split)
