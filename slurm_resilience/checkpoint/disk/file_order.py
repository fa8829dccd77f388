"""Elements that lie anywhere in memory, as the bytes of a file: in order, with zeros between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurm_resilience.checkpoint.disk.checksum_table import ChecksumTable
from slurm_resilience.checkpoint.disk.image import Image
from slurm_resilience.checkpoint.disk.memory import bytes_of

_COPY_BYTES = 256 << 10
"""What is copied and then hashed in one go: it has to stay in the processor's cache in between."""


class FileOrder:
    """The file's bytes behind its head, taken from `pieces`, the elements of the image's regions in order."""

    def __init__(self, image: Image, pieces: Iterable[memoryview], table: ChecksumTable) -> None:
        self.at = image.head_pages_bytes
        """Where in the file the next byte lies."""
        self._table = table
        self._stretches = _stretches(image, pieces)
        self._zero_bytes = 0
        self._piece = memoryview(b"")

    def fill(self, room: memoryview) -> None:
        """Copy as much as there is room for, and let it pass by the table of checksums."""
        filled = 0
        while filled < len(room):
            step = self._put_some(room[filled : filled + _COPY_BYTES])
            self._table.pass_by(self.at, room[filled : filled + step])
            self.at += step
            filled += step

    def end(self) -> None:
        """Raises ValueError if there are more pieces than the file takes."""
        if next(self._stretches, None) is not None:
            raise ValueError("there is more than the file takes")

    def _put_some(self, room: memoryview) -> int:
        while not self._piece and not self._zero_bytes:
            self._piece, self._zero_bytes = next(self._stretches)
        if self._piece:
            step = min(len(room), len(self._piece))
            room[:step] = self._piece[:step]
            self._piece = self._piece[step:]
            return step
        step = min(len(room), self._zero_bytes)
        room[:step] = bytes(step)
        self._zero_bytes -= step
        return step


def _stretches(image: Image, pieces: Iterable[memoryview]) -> Iterator[tuple[memoryview, int]]:
    """Either elements, or how many zeros."""
    nothing = memoryview(b"")
    at = image.head_pages_bytes
    for region, elements in zip(image.regions, pieces, strict=True):
        piece = bytes_of(elements)
        if len(piece) != region.bytes:
            raise ValueError(f"row {region.row} has {len(piece)} bytes, {region.bytes} are expected")
        if at < region.offset:
            yield nothing, region.offset - at
        yield piece, 0
        at = region.offset + region.bytes
    if at < image.file_bytes:
        yield nothing, image.file_bytes - at
