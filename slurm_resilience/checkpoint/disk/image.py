"""What a part's image is: the bytes of its file, lying in memory or on their way there.

Plain numbers, so that they can be sent to a process that knows neither torch nor h5py.
"""

from __future__ import annotations

from dataclasses import dataclass

PAGE_BYTES = 4096
"""The file system's and O_DIRECT's unit: elements begin at a multiple of it."""


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
    """By offset. Rows of tensors without elements, and of those that lie in another file, have none."""
