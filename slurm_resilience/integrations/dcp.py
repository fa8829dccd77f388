"""torch.distributed.checkpoint with our files: verified, durable, without pickle. See docs/dcp.md.

`HDF5StorageWriter` and `HDF5StorageReader` go wherever torch takes a storage. `save` and `load` are dcp's own, raising
our errors instead of its CheckpointException, which is not an Exception.
"""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.planner import LoadPlanner, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load as torch_load
from torch.distributed.checkpoint.state_dict_saver import save as torch_save

from slurm_resilience.checkpoint.distributed.failure import in_our_words
from slurm_resilience.checkpoint.distributed.storage_reader import HDF5StorageReader
from slurm_resilience.checkpoint.distributed.storage_writer import HDF5StorageWriter
from slurm_resilience.errors import CheckpointMismatch, CheckpointUnsupported

__all__ = ["HDF5StorageReader", "HDF5StorageWriter", "load", "save"]


def save(
    state_dict: dict[str, Any],
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    planner: SavePlanner | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> None:
    """Called by all ranks. When it returns, the checkpoint in the folder `path` is durable.

    Raises, on all ranks, CheckpointUnsupported for what can't be kept without pickle, CheckpointUnavailable for the
    file system's refusals, ConfigurationError where `path` holds a checkpoint that isn't to be replaced.
    """
    writer = HDF5StorageWriter(path, overwrite=overwrite)
    with in_our_words(CheckpointUnsupported, here=lambda: None):
        torch_save(state_dict, storage_writer=writer, planner=planner, process_group=process_group)


def load(
    state_dict: dict[str, Any],
    path: str | os.PathLike[str],
    *,
    planner: LoadPlanner | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> None:
    """Called by all ranks, with a `state_dict` whose tensors are filled in place.

    Raises, on all ranks, CheckpointDamaged, CheckpointMismatch for names or shapes that aren't in the checkpoint,
    CheckpointUnsupported, CheckpointUnavailable. Some tensors may have been filled by then; none with damaged content.
    """
    reader = HDF5StorageReader(path)
    with in_our_words(CheckpointMismatch, here=lambda: reader.unreadable):
        torch_load(state_dict, storage_reader=reader, planner=planner, process_group=process_group)
