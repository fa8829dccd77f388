"""How much room a file system has for us."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.checkpoint.space.quota import quota_left


@dataclass(frozen=True, slots=True)
class Room:
    free_bytes: int
    """For an ordinary user."""
    free_inodes: int | None
    """How many more files. None: the file system makes them as it goes (btrfs, many network file systems)."""
    quota_left_bytes: int | None = None
    """None: no quota, or none that can be asked for."""

    @property
    def bytes(self) -> int:
        """What may be written: the narrower of the two."""
        return self.free_bytes if self.quota_left_bytes is None else min(self.free_bytes, self.quota_left_bytes)


def room(path: Path) -> Room:
    """Of the file system that holds `path`, or will hold it: the nearest folder above that exists is asked.

    Raises OSError where the file system doesn't answer. A quota that doesn't answer is no error.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    status = os.statvfs(path)
    left = quota_left(path if path.is_dir() else path.parent)
    # f_files is 0 where inodes aren't counted: then f_favail means nothing.
    limits = [each for each in (status.f_favail if status.f_files else None, left.inodes) if each is not None]
    return Room(status.f_bavail * status.f_frsize, min(limits, default=None), left.bytes)
