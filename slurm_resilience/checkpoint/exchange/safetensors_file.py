"""Files in the safetensors format: 8 bytes of length, a JSON header, the tensors one behind the other.

The format is small and fixed (https://github.com/huggingface/safetensors#format), so we need nobody's package for it.
What we write the safetensors package reads, and the other way round.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from slurm_resilience.checkpoint.format.tensor import bytes_of
from slurm_resilience.checkpoint.store import Progress
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LONGEST_HEADER_BYTES = 100_000_000  # the format's own limit
_AT_ONCE_BYTES = 1 << 24


def write_safetensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str], *, progress: Progress | None = None
) -> None:
    """A new file. Raises CheckpointUnsupported for a dtype that the format lacks, and OSError. Nothing is synced."""
    # As the package does it: by falling alignment, so that every tensor is aligned without gaps.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise CheckpointUnsupported(f"{name} is of {tensor.dtype}, which safetensors doesn't know")
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            data = bytes_of(tensors[name])
            for offset in range(0, len(data), _AT_ONCE_BYTES):
                piece = data[offset : offset + _AT_ONCE_BYTES]
                file.write(piece)
                if progress is not None:
                    progress(len(piece))


def read_safetensors(path: Path, *, progress: Progress | None = None) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors, in memory of their own, and the metadata.

    Raises CheckpointDamaged where the file contradicts itself (it has no checksums to say more), CheckpointUnsupported
    for a dtype that we don't know, CheckpointUnavailable.
    """
    try:
        with path.open("rb") as file:
            size_bytes = path.stat().st_size
            header, start = _header(path, file.read(8), size_bytes, file.read)
            metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
            tensors = {}
            for name, entry in header.items():
                dtype, shape, begin, end = _entry(path, name, entry, size_bytes - start)
                memory = bytearray(end - begin)
                file.seek(start + begin)
                if file.readinto(memory) != len(memory):
                    raise CheckpointDamaged(path, f"it ends within {name}")
                if progress is not None:
                    progress(len(memory))
                flat = torch.frombuffer(memory, dtype=torch.uint8) if memory else torch.empty(0, dtype=torch.uint8)
                tensors[name] = flat.view(dtype).reshape(shape)
            return tensors, metadata
    except OSError as error:
        raise CheckpointUnavailable(f"{path} can't be read: {error.strerror or error}") from error


def _header(path: Path, length: bytes, size_bytes: int, read: Any) -> tuple[dict[str, Any], int]:
    header_bytes = struct.unpack("<Q", length)[0] if len(length) == 8 else size_bytes
    if header_bytes > min(_LONGEST_HEADER_BYTES, size_bytes - 8):
        raise CheckpointDamaged(path, "it is no safetensors file, or cut short")
    try:
        header = json.loads(read(header_bytes))
    except (ValueError, RecursionError) as error:
        raise CheckpointDamaged(path, f"its header is no JSON: {error}") from error
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise CheckpointDamaged(path, "its header is not that of a safetensors file")
    return header, 8 + header_bytes


def _entry(path: Path, name: str, entry: Any, data_bytes: int) -> tuple[torch.dtype, list[int], int, int]:
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [begin, end]} if all(
            type(number) is int and number >= 0 for number in (*shape, begin, end)
        ):
            pass
        case _:
            raise CheckpointDamaged(path, f"its header doesn't say where {name} lies")
    if kind not in _DTYPES:
        raise CheckpointUnsupported(f"{path}: {name} has the dtype {kind}, which this slurm-resilience doesn't know")
    dtype = _DTYPES[kind]
    if end > data_bytes or end - begin != math.prod(shape) * dtype.itemsize:
        raise CheckpointDamaged(path, f"{name} doesn't lie where its header says: the file is cut short or altered")
    return dtype, shape, begin, end
