"""Checksums of an image's regions, computed while its bytes pass by in file order."""

from __future__ import annotations

from slurm_resilience.checkpoint.disk.image import Image
from slurm_resilience.checkpoint.format.checksum import CHECKSUM_BYTES, Checksum

STEP_BYTES = 1 << 20
"""How much is hashed in one go: enough that other threads run meanwhile, little enough to be told to stop."""


class ChecksumTable:
    """Fills the rows of the table in `head`, each as soon as its region has passed."""

    def __init__(self, image: Image, head: memoryview) -> None:
        self._head = head
        self._table_offset = image.checksums_offset
        self._regions = image.regions
        self._current = 0
        self._hashed_bytes = 0
        self._checksum = Checksum()

    def pass_by(self, start: int, block: memoryview) -> None:
        """`block` lies at `start` of the file; everything before it has passed."""
        end = start + len(block)
        while self._current < len(self._regions):
            region = self._regions[self._current]
            at = region.offset + self._hashed_bytes
            until = min(region.offset + region.bytes, end)
            while at < until:
                step = min(STEP_BYTES, until - at)
                self._checksum.update(block[at - start : at - start + step])
                at += step
                self._hashed_bytes += step
            if self._hashed_bytes < region.bytes:
                return
            row = self._table_offset + region.row * CHECKSUM_BYTES
            self._head[row : row + CHECKSUM_BYTES] = self._checksum.digest()
            self._checksum = Checksum()
            self._current += 1
            self._hashed_bytes = 0
