"""torch.distributed.checkpoint's storage, reading our parts. A rank reads the shards that its plan asks for."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

import slurm_resilience.checkpoint.distributed.failure  # noqa: F401 our errors survive the way between ranks
from slurm_resilience.checkpoint.distributed.part_state import as_bytes, found_in
from slurm_resilience.checkpoint.distributed.parts import PartsShelf
from slurm_resilience.checkpoint.distributed.record import RECORD_NAME, NotARecord, Record, UnknownRecord, decode
from slurm_resilience.checkpoint.distributed.shelf import Entry, Leaf
from slurm_resilience.checkpoint.distributed.tree import leaves, replaced
from slurm_resilience.checkpoint.format.part_format import PartError, UnknownFormat
from slurm_resilience.checkpoint.format.structure_rebuilt import rebuild
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.errors import CheckpointDamaged, CheckpointError, CheckpointUnavailable, CheckpointUnsupported


class HDF5StorageReader(StorageReader):
    """`dcp.load(state, storage_reader=HDF5StorageReader(folder))`, for any world size, mesh and placements.

    The whole of a saved shard is verified before any of it reaches a tensor of yours.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._record: Record | None = None
        self.unreadable: CheckpointError | None = None
        """Why `read_metadata` failed here: torch makes an AssertionError of it."""

    @property
    def checkpoint_id(self) -> Path:
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._record = None
        if checkpoint_id:
            self._path = Path(checkpoint_id)

    def read_metadata(self, *_args: Any, **_options: Any) -> Metadata:
        try:
            self._record = self._read_record()
            return _metadata(self._record, self._path / RECORD_NAME)
        except CheckpointError as error:
            self.unreadable = error
            raise

    def set_up_storage_reader(
        self,
        metadata: Metadata,
        is_coordinator: bool,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """`metadata.storage_data` says in whose part a chunk lies."""
        self._ranks: dict[MetadataIndex, int] = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Tell every rank which of its chunks others read, too."""
        wanted = [{item.storage_index for item in plan.items} for plan in plans]
        readers = Counter(index for indices in wanted for index in indices)
        return [
            dataclasses.replace(plan, storage_data=frozenset(index for index in indices if readers[index] > 1))
            for plan, indices in zip(plans, wanted, strict=True)
        ]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        record = self._record or self._read_record()
        shelf = PartsShelf(Hdf5Store(self._path), record.parts)
        wanted: dict[Entry, list[ReadItem]] = {}
        shared: set[Entry] = set()
        for item in plan.items:
            found = self._found(shelf, item.storage_index)
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, as_bytes(_with_tensors(shelf, found)))
            elif isinstance(found, Leaf):
                entry = shelf.entry_of(found)
                wanted.setdefault(entry, []).append(item)
                if item.storage_index in (plan.storage_data or ()):
                    shared.add(entry)
            else:
                raise CheckpointDamaged(self._path, f"{item.storage_index.fqn} is not a tensor in its part")
        for entry, tensor in shelf.read(list(wanted), shared=shared):
            for item in wanted[entry]:
                _hand_over(tensor, item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _found(self, shelf: PartsShelf, index: MetadataIndex) -> Any:
        try:
            return found_in(shelf.skeleton(self._ranks[index]), index)
        except LookupError as error:
            raise CheckpointDamaged(self._path, f"no part has {index.fqn} at {index.offset}") from error

    def _read_record(self) -> Record:
        path = self._path / RECORD_NAME
        try:
            return decode(path.read_bytes())
        except NotARecord as error:
            raise CheckpointDamaged(path, str(error)) from error
        except UnknownRecord as error:
            raise CheckpointUnsupported(f"{path}: {error}") from error
        except FileNotFoundError as error:
            if not self._path.is_dir():
                raise CheckpointUnavailable(f"{self._path} is not there") from error
            raise CheckpointDamaged(self._path, f"there is no {RECORD_NAME}: no save into it was finished") from error
        except OSError as error:
            raise CheckpointUnavailable(f"{path} can't be read: {error.strerror}") from error


def _hand_over(tensor: torch.Tensor, item: ReadItem, planner: LoadPlanner) -> None:
    source = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
    target = planner.resolve_tensor(item).detach()
    if target.size() != source.size():
        raise ValueError(f"{item.storage_index.fqn} needs {tuple(target.size())}, saved was {tuple(source.size())}")
    target.copy_(source)
    planner.commit_tensor(item, target)


def _with_tensors(shelf: PartsShelf, value: Any) -> Any:
    entries = {leaf: shelf.entry_of(leaf) for _, leaf in leaves(value) if isinstance(leaf, Leaf)}
    tensors = dict(shelf.read(list(dict.fromkeys(entries.values()))))
    return replaced(value, lambda _, leaf: tensors[entries[leaf]] if isinstance(leaf, Leaf) else leaf)


def _metadata(record: Record, path: Path) -> Metadata:
    known: dict[str, Any] = {}
    ranks: dict[MetadataIndex, int] = {}
    for name, tensor in record.tensors.items():
        dtype = getattr(torch, tensor.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise CheckpointUnsupported(f"{path}: {name} has dtype {tensor.dtype}, which this torch doesn't have")
        chunks = [ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes)) for chunk in tensor.chunks]
        properties = TensorProperties(dtype=dtype, requires_grad=tensor.requires_grad)
        known[name] = TensorStorageMetadata(properties, torch.Size(tensor.size), chunks)
        ranks.update({MetadataIndex(name, chunk.offsets): chunk.rank for chunk in tensor.chunks})
    for name, rank in record.values.items():
        known[name] = BytesStorageMetadata()
        ranks[MetadataIndex(name)] = rank
    try:
        planner = rebuild(json.dumps({"state": record.planner}).encode("ascii"), [])["planner"]
    except PartError as error:
        raise CheckpointDamaged(path, str(error)) from error
    except UnknownFormat as error:
        raise CheckpointUnsupported(f"{path}: {error}") from error
    return Metadata(state_dict_metadata=known, planner_data=planner, storage_data=ranks)
