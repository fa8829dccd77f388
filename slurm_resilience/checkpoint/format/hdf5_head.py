"""Reading a part's head back.

HDF5 is not safe against damaged metadata (it can crash or loop), so it is handed the head alone, in memory, after the
head's checksum was verified: it never sees a byte that isn't what we wrote.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5f, h5s

from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES
from slurm_resilience.checkpoint.format.hdf5_memory import HeadMemory, access_to, link_to
from slurm_resilience.checkpoint.format.part_format import (
    FORMAT,
    FORMAT_VERSION,
    Dataset,
    Head,
    PartError,
    Placed,
    UnknownFormat,
    names_of,
)


def parse(head: bytes | bytearray, file_bytes: int) -> Head:
    """What a head says. Only for bytes whose checksum was verified. Raises PartError or UnknownFormat."""
    try:
        file = h5f.open(b"part", h5f.ACC_RDONLY, access_to(HeadMemory(bytearray(head), file_bytes, growing=False)))
        try:
            return _parse(file, file_bytes)
        finally:
            file.close()
    except (OSError, RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise PartError(f"its head can't be read ({error})") from error


def _parse(file: Any, file_bytes: int) -> Head:
    root = h5py.Group(file)
    if _plain(root.attrs.get("format", "")) != FORMAT:
        raise UnknownFormat("it is not a slurm-resilience checkpoint part")
    version = int(root.attrs["format_version"])
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"it has format version {version}, this slurm-resilience knows version {FORMAT_VERSION}")

    document = _read(file, b"structure").tobytes()
    names = names_of(document)
    checksums = _read(file, b"checksums")
    if checksums.shape != (len(names), CHECKSUM_BYTES):
        raise PartError(f"it names {len(names)} tensors, but its checksum table has the shape {checksums.shape}")
    return Head(
        checkpoint=str(_plain(root.attrs["checkpoint"])),
        rank=int(root.attrs["rank"]),
        attributes={name: _plain(value) for name, value in root["attributes"].attrs.items()},
        document=document,
        placed=tuple(
            _placed(file, name, checksum.tobytes(), file_bytes) for name, checksum in zip(names, checksums, strict=True)
        ),
    )


def _read(file: Any, name: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    opened = h5d.open(file, name)
    content = np.zeros(opened.shape, dtype=np.uint8)
    if content.size:
        opened.read(h5s.ALL, h5s.ALL, content)
    return content


def _placed(file: Any, name: str, checksum: bytes, file_bytes: int) -> Placed:
    opened = h5d.open(file, link_to(name))
    dtype = h5py.AttributeManager(h5py.Dataset(opened))["dtype"]
    dataset = Dataset(name, str(_plain(dtype)), tuple(opened.shape))
    if dataset.bytes == 0:
        return Placed(dataset, 0, checksum)
    offset = opened.get_offset()
    if offset is None:
        raise PartError(f"tensor {name} has no place in the file")
    if opened.get_storage_size() != dataset.bytes:
        stored = opened.get_storage_size()
        raise PartError(f"tensor {name} takes {stored} bytes, its shape and dtype make {dataset.bytes}")
    if offset + dataset.bytes > file_bytes:
        raise PartError(f"tensor {name} ends at byte {offset + dataset.bytes}, the file at {file_bytes}")
    return Placed(dataset, offset, checksum)


def _plain(value: Any) -> str | int | float | bool | None:
    """An attribute as it was given."""
    if isinstance(value, h5py.Empty):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bytes):
        return plain.decode()
    if not isinstance(plain, (str, int, float, bool)):
        raise PartError(f"an attribute has the type {type(value).__name__}")
    return plain
