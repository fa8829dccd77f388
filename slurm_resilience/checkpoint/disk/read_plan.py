"""Which pieces of a file to read, so that large tensors are shared out between threads and small ones come together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurm_resilience.checkpoint.disk.image import PAGE_BYTES

_SMALL_BYTES = 256 << 10
"""Reading so much takes about as long as asking for it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a tensor's elements lie in the file."""

    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one tensor: `bytes` from its byte `start` on. `which` is its place in the plan's extents."""

    which: int
    start: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read at once. More than one part: whole small tensors, close to each other."""

    offset: int
    bytes: int
    parts: tuple[Part, ...]


def pieces_of(extents: Sequence[Extent], piece_bytes: int) -> Iterator[Piece]:
    """In the order of the file; together every byte of every extent once. `piece_bytes` is a multiple of a page."""
    small: list[int] = []
    for which in sorted(range(len(extents)), key=lambda each: (extents[each].offset, each)):
        extent = extents[which]
        if small and not _joins(extents[small[0]], extents[small[-1]], extent, piece_bytes):
            yield _together(extents, small)
            small = []
        if extent.bytes <= _SMALL_BYTES:
            small.append(which)
            continue
        for start in range(0, extent.bytes, piece_bytes):
            size_bytes = min(piece_bytes, extent.bytes - start)
            yield Piece(extent.offset + start, size_bytes, (Part(which, start, size_bytes),))
    if small:
        yield _together(extents, small)


def _joins(first: Extent, last: Extent, extent: Extent, piece_bytes: int) -> bool:
    gap = extent.offset - (last.offset + last.bytes)
    return (
        extent.bytes <= _SMALL_BYTES
        and 0 <= gap <= PAGE_BYTES
        and extent.offset + extent.bytes - first.offset <= piece_bytes
    )


def _together(extents: Sequence[Extent], small: Sequence[int]) -> Piece:
    first, last = extents[small[0]], extents[small[-1]]
    parts = tuple(Part(which, 0, extents[which].bytes) for which in small)
    return Piece(first.offset, last.offset + last.bytes - first.offset, parts)
