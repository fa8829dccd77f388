"""The one door to files that must survive a crash: bytes, then name, then folder.

Whenever we die in here, what is found afterwards is the whole old state or the whole new one.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable. Some file systems refuse (EINVAL): they have nothing to sync."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def make_directory_durably(directory: Path) -> None:
    """Make `directory` and its missing parents, each with its name durable in the one above."""
    missing: list[Path] = []
    ancestor = directory
    while not ancestor.is_dir():
        missing.append(ancestor)
        ancestor = ancestor.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def unnamed_beside(path: Path) -> Path:
    """A fresh staging name in the same folder, so that the rename never crosses a file system."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def replace_durably(path: Path, data: bytes) -> None:
    """Make `path` hold `data`. Whenever we die, `path` is the whole old file or the whole new one."""
    unnamed = unnamed_beside(path)
    try:
        with unnamed.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the bytes, before anyone can find them
        unnamed.replace(path)  # never unlink first
    except BaseException:
        unnamed.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)  # the name, before we report success
