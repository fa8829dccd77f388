"""The bytes of a part: written once with their checksums, and never handed on unverified.

Knows no torch: elements are memory, whatever they mean.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_resilience.checkpoint.disk.part_file import OpenPart, StagedFile
from slurm_resilience.checkpoint.format.checksum import Checksum, checksum_of
from slurm_resilience.checkpoint.format.hdf5_head import parse
from slurm_resilience.checkpoint.format.hdf5_layout import Layout
from slurm_resilience.checkpoint.format.part_format import Head, HeadChecksum, PartError, Placed
from slurm_resilience.checkpoint.store import PartReceipt, Progress

_PIECE_BYTES = 8 << 20


def put(file: StagedFile, layout: Layout, pieces: Iterable[memoryview]) -> HeadChecksum:
    """Write the elements, then the head that vouches for them. `pieces` are the datasets' elements, in order."""
    checksums: list[bytes] = []
    for offset, elements in zip(layout.offsets, pieces, strict=True):
        checksum = Checksum()
        for start in range(0, len(elements), _PIECE_BYTES):
            piece = elements[start : start + _PIECE_BYTES]
            checksum.update(piece)  # while it is in the processor's cache
            file.write_at(offset + start, piece)
        checksums.append(checksum.digest())
    layout.put_checksums(checksums)
    file.write_at(0, memoryview(layout.head))
    return HeadChecksum(checksum_of(layout.head), len(layout.head))


def verified_head(file: OpenPart, receipt: PartReceipt) -> Head:
    """The head that `receipt` vouches for. Raises PartError for any other, UnknownFormat, and OSError."""
    expected = HeadChecksum.parse(receipt.checksum)
    size_bytes = file.size_bytes()
    if size_bytes != receipt.bytes:
        raise PartError(f"it has {size_bytes} bytes, its receipt says {receipt.bytes}")
    if expected.head_bytes > size_bytes:
        raise PartError(f"its receipt speaks of a head of {expected.head_bytes} bytes, the file has {size_bytes}")
    raw = bytearray(expected.head_bytes)
    if not file.read_into(0, memoryview(raw)):
        raise PartError("it became shorter while it was read")
    found = checksum_of(raw)
    if found != expected.digest:
        raise PartError(
            f"its head has the checksum xxh3-128:{found.hex()}, its receipt says xxh3-128:{expected.digest.hex()}: "
            "it was altered, or is not the file that the receipt is for"
        )
    head = parse(raw, size_bytes)
    if head.rank != receipt.rank:
        raise PartError(f"it is the part of rank {head.rank}, its receipt is for rank {receipt.rank}")
    return head


def fill(file: OpenPart, placed: Placed, into: memoryview, progress: Progress | None) -> None:
    """Read a dataset's elements and hold them, as they now lie in memory, against their checksum."""
    checksum = Checksum()
    for start in range(0, placed.dataset.bytes, _PIECE_BYTES):
        piece = into[start : start + _PIECE_BYTES]
        _read(file, placed, start, piece)
        checksum.update(piece)
        if progress is not None:
            progress(len(piece))
    _compare(placed, checksum)


def check(file: OpenPart, placed: Placed, progress: Progress | None) -> None:
    """As `fill`, keeping nothing."""
    checksum = Checksum()
    scratch = memoryview(bytearray(min(placed.dataset.bytes, _PIECE_BYTES)))
    for start in range(0, placed.dataset.bytes, _PIECE_BYTES):
        piece = scratch[: placed.dataset.bytes - start]
        _read(file, placed, start, piece)
        checksum.update(piece)
        if progress is not None:
            progress(len(piece))
    _compare(placed, checksum)


def _read(file: OpenPart, placed: Placed, start: int, piece: memoryview) -> None:
    if not file.read_into(placed.offset + start, piece):
        raise PartError(f"tensor {placed.dataset.name} became shorter while it was read")


def _compare(placed: Placed, checksum: Checksum) -> None:
    found = checksum.digest()
    if found != placed.checksum:
        raise PartError(
            f"tensor {placed.dataset.name} has the checksum xxh3-128:{found.hex()}, "
            f"xxh3-128:{placed.checksum.hex()} was written"
        )
