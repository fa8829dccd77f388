"""Being rank 3 of 4 in a single process: nothing is ever exchanged, which is what is tested here."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement
from torch.testing._internal.distributed.fake_pg import FakeStore

from slurm_resilience.checkpoint.distributed.shard_notes import ShardNotes
from slurm_resilience.checkpoint.distributed.shelf import Entry, Leaf
from slurm_resilience.checkpoint.distributed.tree import leaves, replaced
from slurm_resilience.errors import CheckpointMismatch


@contextlib.contextmanager
def rank_of(rank: int, world_size: int) -> Iterator[None]:
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def cut(
    whole: torch.Tensor, mesh_shape: Sequence[int], placements: Sequence[Placement], names: Sequence[str] | None = None
) -> DTensor:
    """This rank's DTensor of `whole`, cut as torch cuts it."""
    mesh = init_device_mesh("cpu", tuple(mesh_shape), mesh_dim_names=None if names is None else tuple(names))
    coordinate = mesh.get_coordinate()
    assert coordinate is not None
    local = whole
    for size, index, placement in zip(mesh_shape, coordinate, placements, strict=True):
        if hasattr(placement, "_split_tensor"):
            shards, _ = placement._split_tensor(local, size, with_padding=False, contiguous=True)
            local = shards[index]
    return DTensor.from_local(
        local.clone(), mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


class MemoryShelf:
    """Parts that were never written: `keep` takes what a rank would write."""

    def __init__(self) -> None:
        self.skeletons: dict[int, dict[str, Any]] = {}
        self.reads: list[tuple[int, str]] = []
        self.shared: set[str] = set()
        self._values: dict[Entry, Any] = {}

    def keep(self, rank: int, plain: dict[str, Any], notes: ShardNotes) -> None:
        for name, value in leaves(plain):
            if isinstance(value, torch.Tensor):
                dtype = str(value.dtype).removeprefix("torch.")
                content = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                entry = Entry(rank, name, dtype, tuple(value.shape), content[:64], notes.get(name))
                self._values[entry] = value.detach().clone()
        self.skeletons[rank] = replaced(
            plain,
            lambda path, value: Leaf(rank, path, value.requires_grad) if isinstance(value, torch.Tensor) else value,
        )

    def entries(self) -> list[Entry]:
        return list(self._values)

    def lose(self, rank: int) -> None:
        self._values = {entry: value for entry, value in self._values.items() if entry.rank != rank}

    def entry_of(self, leaf: Leaf) -> Entry:
        for entry in self._values:
            if (entry.rank, entry.name) == (leaf.rank, leaf.name):
                return entry
        raise CheckpointMismatch(f"the part of rank {leaf.rank} has no tensor {leaf.name}")

    def read(self, wanted: Sequence[Entry], *, shared: Container[Entry] = ()) -> Iterator[tuple[Entry, Any]]:
        self.shared |= {entry.name for entry in wanted if entry in shared}
        for entry in wanted:
            self.reads.append((entry.rank, entry.name))
            yield entry, self._values[entry].clone()
