"""torch.distributed.checkpoint's storage, writing our parts.

FOLDER/checkpoints/save-<16 hex>/rank-00003.h5      a part a rank that has something to write, durable first
FOLDER/checkpoint.json                              last, by the coordinator: what makes it a checkpoint
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

import slurm_resilience.checkpoint.distributed.failure  # noqa: F401 our errors survive the way between ranks
from slurm_resilience.checkpoint.distributed.part_state import state_of
from slurm_resilience.checkpoint.distributed.record import (
    RECORD_NAME,
    Chunk,
    NotARecord,
    Record,
    SavedTensor,
    UnknownRecord,
    decode,
    encode,
)
from slurm_resilience.checkpoint.format.structure import flatten
from slurm_resilience.checkpoint.hdf5_store import CHECKPOINTS, Hdf5Store, part_name
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.errors import CheckpointUnavailable, CheckpointUnsupported, ConfigurationError

_ATTRIBUTES = {"written_by": "torch.distributed.checkpoint"}


@dataclasses.dataclass(frozen=True, slots=True)
class Save:
    """What the coordinator tells a rank with its plan."""

    name: str
    rank: int


class HDF5StorageWriter(StorageWriter):
    """`dcp.save(state, storage_writer=HDF5StorageWriter(folder))`, `dcp.async_save(…)`.

    A checkpoint that lies in `path` already stays whole until the new one is durable, and is removed then; with
    `overwrite=False` it is refused. Killed at any instant, `path` holds the old checkpoint or the new one; parts of a
    save that was cut short are inert.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        self._path = Path(path)
        self._overwrite = overwrite

    @property
    def checkpoint_id(self) -> Path:
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = Path(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise CheckpointUnsupported("a checkpoint is one for all ranks: save with use_collectives=True")
        if is_coordinator and not self._overwrite and (self._path / RECORD_NAME).exists():
            raise ConfigurationError(f"{self._path} holds a checkpoint already")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        name = f"save-{secrets.token_hex(8)}"
        return [dataclasses.replace(plan, storage_data=Save(name, rank)) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        results: list[WriteResult] = []
        if plan.items:
            save = self._unused(plan.storage_data)
            receipt = Hdf5Store(self._path).write_part(
                save.name, rank=save.rank, state=state_of(plan.items, planner), attributes=_ATTRIBUTES
            )
            results = [WriteResult(item.index, receipt.bytes, receipt) for item in plan.items]
        written: Future[list[WriteResult]] = Future()
        written.set_result(results)
        return written

    def _unused(self, save: Save) -> Save:
        """With torch's plan caching a rank is handed the plan of an earlier save, whose part may be somebody's."""
        number, fresh = 1, save
        while (self._path / CHECKPOINTS / fresh.name / part_name(save.rank)).exists():
            number += 1
            fresh = Save(f"{save.name}.{number}", save.rank)
        return fresh

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        receipts = {result.storage_data.rank: result.storage_data for part in results for result in part}
        ranks = {result.index: result.storage_data.rank for part in results for result in part}
        record = _record(metadata, [receipts[rank] for rank in sorted(receipts)], ranks)
        path = self._path / RECORD_NAME
        try:
            replaced = _saves_in(path)
            make_directory_durably(self._path)
            replace_durably(path, encode(record))
        except OSError as error:
            raise CheckpointUnavailable(f"{path} can't be written: {error.strerror or error}") from error
        for name in replaced - _saves_of(record):
            with contextlib.suppress(CheckpointUnavailable):  # the checkpoint is there; what stays takes only room
                Hdf5Store(self._path).delete(name)


def _record(metadata: Metadata, receipts: Sequence[PartReceipt], ranks: dict[MetadataIndex, int]) -> Record:
    tensors: dict[str, SavedTensor] = {}
    values: dict[str, int] = {}
    for name, saved in metadata.state_dict_metadata.items():
        if not isinstance(saved, TensorStorageMetadata):
            values[name] = ranks[MetadataIndex(name)]
            continue
        tensors[name] = SavedTensor(
            dtype=str(saved.properties.dtype).removeprefix("torch."),
            size=tuple(saved.size),
            requires_grad=saved.properties.requires_grad,
            chunks=tuple(
                Chunk(tuple(chunk.offsets), tuple(chunk.sizes), ranks[MetadataIndex(name, chunk.offsets)])
                for chunk in saved.chunks
            ),
        )
    planner = json.loads(flatten({"planner": metadata.planner_data}).document)["state"]
    return Record(tuple(receipts), tensors, values, planner, torch.__version__)


def _saves_in(path: Path) -> set[str]:
    """Of the checkpoint that is about to be replaced. Nothing is removed by the word of one that can't be read."""
    try:
        return _saves_of(decode(path.read_bytes()))
    except (FileNotFoundError, NotARecord, UnknownRecord):
        return set()


def _saves_of(record: Record) -> set[str]:
    return {PurePosixPath(part.file).parent.name for part in record.parts}
