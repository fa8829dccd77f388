"""What a part's image is: the bytes of its file, lying in memory or on their way there.

Plain numbers, so that they can be sent to a process that knows neither torch nor h5py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int], None]
"""Told how many bytes more are dealt with."""

PAGE_BYTES = 4096
"""The file system's and O_DIRECT's unit: elements begin at a multiple of it."""


def whole_pages(size_bytes: int) -> int:
    """The pages that `size_bytes` take, in bytes."""
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Region:
    """The elements of one tensor: `bytes` bytes from `offset` on, whose checksum belongs into row `row`."""

    row: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """A file of `file_bytes` bytes. Its head is the first `head_bytes`; elements begin on a page behind it."""

    file_bytes: int
    head_bytes: int
    checksums_offset: int
    """Where in the head the table of checksums lies, 16 bytes a row."""
    regions: tuple[Region, ...]
    """By offset, apart from each other. Rows of tensors without elements have none, nor have those of tensors whose
    elements lie in another file."""

    @property
    def head_pages_bytes(self) -> int:
        """Where the elements may begin."""
        return whole_pages(self.head_bytes)
