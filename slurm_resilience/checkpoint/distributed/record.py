"""`checkpoint.json`: what torch.distributed.checkpoint has to know of a checkpoint, and the receipts of its parts.

It is written last, durably, in one rename: a folder holds the checkpoint that its `checkpoint.json` describes, or none.
Plain JSON with a checksum. Knows no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slurm_resilience.checkpoint.format.checksum import checksum_of
from slurm_resilience.checkpoint.store import PartReceipt

FORMAT = "slurm-resilience distributed checkpoint"
FORMAT_VERSION = 1
RECORD_NAME = "checkpoint.json"


class NotARecord(Exception):
    """Not what was written. The message goes on after the file's name."""


class UnknownRecord(Exception):
    """Whole, but of a format or version that we don't know."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A box of a tensor, and the rank in whose part it lies."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class SavedTensor:
    dtype: str
    size: tuple[int, ...]
    requires_grad: bool
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Record:
    parts: tuple[PartReceipt, ...]
    tensors: Mapping[str, SavedTensor]
    values: Mapping[str, int]
    """What is not a tensor: the rank in whose part it lies."""
    planner: Any
    """The planner's own data, as the structure document has it."""
    torch: str


def encode(record: Record) -> bytes:
    content = {
        "torch": record.torch,
        "parts": [asdict(part) for part in record.parts],
        "tensors": {
            name: {
                "dtype": tensor.dtype,
                "size": list(tensor.size),
                "requires_grad": tensor.requires_grad,
                "chunks": [[list(chunk.offsets), list(chunk.sizes), chunk.rank] for chunk in tensor.chunks],
            }
            for name, tensor in record.tensors.items()
        },
        "values": dict(record.values),
        "planner": record.planner,
    }
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(content), "content": content}
    return json.dumps(whole, separators=(",", ":")).encode("ascii") + b"\n"


def decode(data: bytes) -> Record:
    """What `encode` was given. Raises NotARecord or UnknownRecord."""
    try:
        whole = json.loads(data)
        if whole["format"] != FORMAT or whole["format_version"] != FORMAT_VERSION:
            raise UnknownRecord(f"it has a format that this slurm-resilience doesn't know: {str(whole['format'])[:80]}")
        content = whole["content"]
        if whole["checksum"] != _checksum(content):
            raise NotARecord("it was altered: its checksum is another")
        return Record(
            parts=tuple(PartReceipt(**part) for part in content["parts"]),
            tensors={name: _tensor(tensor) for name, tensor in content["tensors"].items()},
            values=content["values"],
            planner=content["planner"],
            torch=content["torch"],
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotARecord(f"it can't be read ({type(error).__name__}: {error})") from error


def _tensor(tensor: Mapping[str, Any]) -> SavedTensor:
    return SavedTensor(
        dtype=tensor["dtype"],
        size=_numbers(tensor["size"]),
        requires_grad=tensor["requires_grad"],
        chunks=tuple(Chunk(_numbers(offsets), _numbers(sizes), rank) for offsets, sizes, rank in tensor["chunks"]),
    )


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _checksum(content: Mapping[str, Any]) -> str:
    return f"xxh3-128:{checksum_of(json.dumps(content, separators=(',', ':')).encode('ascii')).hex()}"
