"""What lies in the folder of checkpoints, by size."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.checkpoint.space.leftovers import Found


def folders_of(checkpoints: Path) -> list[Found]:
    """Each folder below with the bytes of the files in it, sorted by name. Raises OSError.

    A file that several folders have links to counts in each. What vanishes meanwhile counts as nothing.
    """
    try:
        folders = sorted(path for path in checkpoints.iterdir() if path.is_dir() and not path.is_symlink())
    except FileNotFoundError:
        return []
    return [Found(folder.name, _bytes_in(folder)) for folder in folders]


def _bytes_in(folder: Path) -> int:
    size_bytes = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                size_bytes += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    except FileNotFoundError:
        pass
    return size_bytes
