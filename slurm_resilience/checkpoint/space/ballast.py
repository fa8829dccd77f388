"""A file of real blocks that is given up when the disk is full, so that one more save fits.

    RUN/checkpoints/.ballast

A full disk is mostly somebody else's doing and comes without a warning; the checkpoint that doesn't fit may be the
one before a preemption. Only rank 0 keeps a ballast. Whenever we die in here, what is left is a ballast of another
size, which the next `restore` completes: nobody relies on more than `held_bytes` says.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.space.reservation import reserve
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.checkpoint.tiers.throttle import Throttle
from slurm_resilience.durable_file import make_directory_durably, sync_directory

BALLAST = ".ballast"
DEFAULT_CAP_BYTES = 4 << 30
_BLOCK_BYTES = 512
"""The unit of st_blocks, whatever the file system's blocks are."""


@dataclass(frozen=True, slots=True)
class Restored:
    bytes: int


@dataclass(frozen=True, slots=True)
class NotRestored:
    why: str


def ballast_bytes(checkpoint_bytes: int, *, cap_bytes: int = DEFAULT_CAP_BYTES) -> int:
    """How large a ballast should be: one checkpoint of all ranks, up to `cap_bytes`. 0 turns it off."""
    return min(checkpoint_bytes, cap_bytes)


class Ballast:
    def __init__(self, checkpoints: Path, *, throttle: Throttle | None = None) -> None:
        """`throttle` bounds the writing, where blocks have to be written to be real."""
        self._path = checkpoints / BALLAST
        self._throttle = throttle

    def held_bytes(self) -> int:
        """What releasing would free: blocks that exist, whatever the file's length says. OSError if nobody can say."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return 0
        return min(status.st_blocks * _BLOCK_BYTES, status.st_size)

    def release(self) -> int:
        """Give the blocks back, durably; how many bytes that were. Harmless twice. Raises OSError."""
        held_bytes = self.held_bytes()
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            # Before the unlink: a descriptor somebody else still holds would keep the blocks.
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)  # ext4 and XFS hand freed blocks out again only once this is on disk
        finally:
            os.close(descriptor)
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)
        return held_bytes

    def restore(
        self, size_bytes: int, room: Room, *, spare_bytes: int, stop: Callable[[], bool] = lambda: False
    ) -> Restored | NotRestored:
        """Make the ballast `size_bytes` large, if `spare_bytes` (the next save) stay free besides. May take minutes.

        Harmless twice. When the file system refuses half-way, the ballast is released again: a full disk is no place
        to hold room back. `stop` is asked between blocks; what is there then stays.
        """
        try:
            held_bytes = self.held_bytes()
            if size_bytes <= 0 or held_bytes >= size_bytes:
                return Restored(held_bytes)
            lacking_bytes = size_bytes - held_bytes
            if room.bytes < lacking_bytes + spare_bytes:
                return NotRestored(
                    f"{room.bytes} bytes are free; the ballast lacks {lacking_bytes}, the next save takes {spare_bytes}"
                )
            return self._grow(size_bytes, stop)
        except OSError as error:
            return NotRestored(f"{self._path}: {error.strerror or error}")

    def _grow(self, size_bytes: int, stop: Callable[[], bool]) -> Restored | NotRestored:
        make_directory_durably(self._path.parent)
        descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            reserve(descriptor, size_bytes, throttle=self._throttle, stop=stop)
            os.fsync(descriptor)
        except OSError:
            self.release()
            raise
        finally:
            os.close(descriptor)
        sync_directory(self._path.parent)
        held_bytes = self.held_bytes()
        if held_bytes >= size_bytes:
            return Restored(held_bytes)
        return NotRestored(f"{held_bytes} of {size_bytes} bytes are real so far")
