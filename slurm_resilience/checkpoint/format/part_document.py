"""Which tensors a part holds and where: the structure document's rows with their places and checksums.

Everything here comes from a head that was verified, and is checked all the same: a reader goes by nothing else.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES
from slurm_resilience.checkpoint.format.part_format import PLACE_BYTES, Dataset, PartError, Placed, is_file_name


def placed_rows(
    document: bytes, places: bytes, checksums: bytes, *, head_bytes: int, file_bytes: int
) -> tuple[Placed, ...]:
    """The datasets, in the order of the tables. Raises PartError, and UnknownFormat for a dtype we don't know."""
    try:
        parsed = json.loads(document.decode("ascii"))  # bytes would be searched for signs of UTF-16
        rows, files = parsed["tensors"], parsed["files"]
        datasets = [Dataset(*_row(row)) for row in rows]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise PartError(f"its structure can't be read ({type(error).__name__}: {error})") from error
    if not isinstance(files, list):
        raise PartError("its structure has no list of files")
    for file in files:
        if not is_file_name(file):
            raise PartError(f"it borrows from {file!r}, which can't be a file of its folder")
    if len(places) != len(rows) * PLACE_BYTES or len(checksums) != len(rows) * CHECKSUM_BYTES:
        raise PartError(f"it names {len(rows)} tensors, but its tables of places and checksums have other lengths")
    return tuple(
        _placed(dataset, files, struct.unpack_from("<QQ", places, row * PLACE_BYTES), checksum, head_bytes, file_bytes)
        for row, dataset in enumerate(datasets)
        for checksum in (checksums[row * CHECKSUM_BYTES : (row + 1) * CHECKSUM_BYTES],)
    )


def _row(row: Any) -> tuple[str, str, tuple[int, ...]]:
    match row:
        case [str(name), str(dtype), list(shape)] if all(type(length) is int and length >= 0 for length in shape):
            return name, dtype, tuple(shape)
    raise PartError(f"its structure describes a tensor by {str(row)[:80]}")


def _placed(
    dataset: Dataset, files: list[str], place: tuple[int, int], checksum: bytes, head_bytes: int, file_bytes: int
) -> Placed:
    number, offset = place
    if dataset.bytes == 0:
        return Placed(dataset, 0, checksum)
    if number > len(files):
        raise PartError(f"tensor {dataset.name} lies in file number {number}, the structure names {len(files)}")
    if number:
        lent = Dataset(dataset.name, dataset.dtype, dataset.shape, file=files[number - 1])
        return Placed(lent, offset, checksum)
    if offset < head_bytes:
        raise PartError(f"tensor {dataset.name} has no place in the file")
    if offset + dataset.bytes > file_bytes:
        raise PartError(f"tensor {dataset.name} ends at byte {offset + dataset.bytes}, the file at {file_bytes}")
    return Placed(dataset, offset, checksum)
