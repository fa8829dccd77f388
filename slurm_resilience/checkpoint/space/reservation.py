"""Blocks that are really there: asked of the file system where it has a way, written where it has none."""

from __future__ import annotations

import os
from collections.abc import Callable

from slurm_resilience.checkpoint.disk.kernel import allocate, write_some
from slurm_resilience.checkpoint.tiers.throttle import Throttle

_PIECE_BYTES = 1 << 20
_SYNC_EVERY_BYTES = 64 << 20


def reserve(
    descriptor: int, size_bytes: int, *, throttle: Throttle | None = None, stop: Callable[[], bool] = lambda: False
) -> None:
    """Let the file have `size_bytes` of real blocks, or fewer when told to stop. Raises OSError (ENOSPC, EDQUOT)."""
    allocate(descriptor, size_bytes)
    if not _is_real(descriptor, size_bytes):
        _write(descriptor, size_bytes, throttle, stop)


def _is_real(descriptor: int, size_bytes: int) -> bool:
    """Some file systems can't allocate; ZFS says that it has, and reserves nothing."""
    return os.fstat(descriptor).st_blocks * 512 >= size_bytes


def _write(descriptor: int, size_bytes: int, throttle: Throttle | None, stop: Callable[[], bool]) -> None:
    """From where a writer before us stopped. Random bytes: compressing file systems store zeros as nothing."""
    piece = memoryview(os.urandom(min(_PIECE_BYTES, size_bytes)))
    status = os.fstat(descriptor)
    offset = min(status.st_size, status.st_blocks * 512)  # a length without blocks is no reservation
    unsynced_bytes = 0
    while offset < size_bytes and not stop():
        count = write_some(descriptor, piece[: size_bytes - offset], offset)
        offset += count
        unsynced_bytes += count
        if unsynced_bytes >= _SYNC_EVERY_BYTES:
            os.fdatasync(descriptor)  # dirty memory stays bounded, and a refusal comes early
            unsynced_bytes = 0
        if throttle is not None:
            throttle.spend(count)
    os.fsync(descriptor)  # network file systems say "disk full" only now
