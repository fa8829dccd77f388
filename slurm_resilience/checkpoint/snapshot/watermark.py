"""A number in memory shared by the process that makes a snapshot and the one that writes it."""

from __future__ import annotations

import mmap
import os

from slurm_resilience.checkpoint.disk.image import PAGE_BYTES

_SPOILT = 2**64 - 1


class SnapshotSpoilt(Exception):
    """The snapshot was given up while it was made: what is there of it belongs to no instant."""


class Watermark:
    """So many bytes of the image, from its beginning, are there. One process raises it, another looks."""

    def __init__(self, descriptor: int, mapping: mmap.mmap) -> None:
        self.descriptor = descriptor
        self._mapping = mapping
        # Stored and loaded as one word: whoever looks sees an old number or a new one, never half of each.
        self._words = memoryview(mapping).cast("Q")

    @classmethod
    def make(cls) -> Watermark:
        """At zero."""
        descriptor = os.memfd_create("slurm-resilience-watermark", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, PAGE_BYTES)
        return cls.attach(descriptor)

    @classmethod
    def attach(cls, descriptor: int) -> Watermark:
        """That of another process. From now on `descriptor` is the watermark's to close."""
        return cls(descriptor, mmap.mmap(descriptor, PAGE_BYTES, flags=mmap.MAP_SHARED))

    def reached(self) -> int:
        """Raises SnapshotSpoilt."""
        reached = self._words[0]
        if reached == _SPOILT:
            raise SnapshotSpoilt("the snapshot was given up before it was whole")
        return reached

    def put(self, reached: int) -> None:
        self._words[0] = reached

    def spoil(self) -> None:
        """No more will come, and what came must not be used."""
        self._words[0] = _SPOILT

    def close(self) -> None:
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        self._words.release()
        self._mapping.close()
