"""Folders written by torch.distributed.checkpoint, read in one process and without anybody's code.

DCP keeps its metadata as a pickle. It is unpickled here with nothing allowed but DCP's own plain classes, and the
values beside the tensors by `weights_only`.
"""

from __future__ import annotations

import io
import pickle
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from slurm_resilience.checkpoint.exchange.plain_torch import load_plain_stream
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

METADATA = ".metadata"
_ALLOWED = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed._shard.sharded_tensor.metadata": {"MEM_FORMAT_ENCODING", "TensorProperties"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size"},
    "collections": {"OrderedDict"},
    "pathlib": {"PosixPath", "PurePosixPath"},  # the folder it was written to
    "pathlib._local": {"PosixPath", "PurePosixPath"},  # the same since Python 3.13
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        dtype = getattr(torch, name, None) if module == "torch" else None
        if isinstance(dtype, torch.dtype):
            return dtype
        if name not in _ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


class _PlainReader(FileSystemReader):
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with (Path(self.path) / METADATA).open("rb") as file:
            metadata = _PlainUnpickler(file).load()
        if not isinstance(metadata, Metadata):
            raise pickle.UnpicklingError("it is no metadata of DCP")
        return metadata


class _PlainPlanner(DefaultLoadPlanner):
    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
        self.state_dict[read_item.dest_index.fqn] = load_plain_stream(value)


def read_dcp(folder: Path) -> dict[str, Any]:
    """The state as it was given to `dcp.save`, shards put together, tensors on the CPU.

    Raises CheckpointUnsupported where only pickle code could load it, CheckpointDamaged, CheckpointUnavailable.
    """
    try:
        reader = _PlainReader(folder)
        metadata = reader.read_metadata()
        flat: dict[str, Any] = {name: _room(kept) for name, kept in metadata.state_dict_metadata.items()}
        planner = _PlainPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # meant so
            load(flat, storage_reader=reader, planner=planner)
    except CheckpointException as error:
        raise _plainly(folder, next((failure[0] for failure in error.failures.values()), error)) from error
    except (pickle.UnpicklingError, OSError, RuntimeError, EOFError, ValueError, LookupError, TypeError) as error:
        raise _plainly(folder, error) from error
    tree: dict[str, Any] = _with_numbers(_nested(flat, metadata.planner_data or {}))
    return tree


def _room(kept: Any) -> Any:
    return torch.empty(kept.size, dtype=kept.properties.dtype) if isinstance(kept, TensorStorageMetadata) else None


def _plainly(folder: Path, error: BaseException) -> Exception:
    if isinstance(error, pickle.UnpicklingError):
        return CheckpointUnsupported(
            f"{folder} holds more than tensors and plain values, and loading that would run whatever code it names "
            f"({(str(error).splitlines() or ['a pickle'])[0]})"
        )
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return CheckpointUnavailable(f"{folder} can't be read: {error.strerror or error}")
    return CheckpointDamaged(folder, f"torch.distributed.checkpoint can't read it ({error})")


def _nested(flat: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """DCP keeps the way to every value: a word is a key of a dict, a number a place in a list."""
    root: dict[str, Any] = {}
    for name, value in flat.items():
        path = paths.get(name, (name,))
        place: Any = root
        for part, following in zip(path, [*path[1:], None], strict=True):
            item = value if following is None else [] if isinstance(following, int) else {}
            place = _put(place, part, item, last=following is None)
    return root


def _put(place: Any, part: Any, item: Any, *, last: bool) -> Any:
    if isinstance(place, list):
        place.extend([None] * (part + 1 - len(place)))
        if last or place[part] is None:
            place[part] = item
    elif last or part not in place:
        place[part] = item
    return place[part]


def _with_numbers(value: Any) -> Any:
    """DCP makes words of all keys; an optimizer would not find its state under "0", and begin anew without a word, and
    a scheduler not its milestones. Empty dicts DCP leaves out: that of an optimizer that keeps nothing."""
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: _with_numbers(item) for key, item in value.items()}
    if "param_groups" in made:
        made["state"] = _numbered(made.get("state", {}))
    if "last_epoch" in made and isinstance(made.get("milestones"), dict):
        made["milestones"] = Counter(_numbered(made["milestones"]))
    return made


def _numbered(value: Any) -> Any:
    if not isinstance(value, dict) or not all(str(key).isdecimal() for key in value):
        return value
    return {int(key): item for key, item in value.items()}
