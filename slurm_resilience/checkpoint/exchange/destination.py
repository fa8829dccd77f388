"""A file or folder that comes into being as a whole: staged beside its place, made durable, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from slurm_resilience.durable_file import sync_directory, unnamed_beside
from slurm_resilience.errors import CheckpointUnavailable, ConfigurationError


@contextlib.contextmanager
def whole_or_nothing(destination: Path, *, folder: bool, force: bool) -> Iterator[Path]:
    """The path to write to. Left without an exception, it is durable and called `destination`.

    Raises ConfigurationError where `destination` is there already, without `force`; CheckpointUnavailable where the
    file system refuses. An old file is replaced in one step; an old folder is set aside first and put back if the new
    one can't take its place, so that for an instant there is none of that name, but never half of one.
    """
    with _translated(destination):
        if not force and os.path.lexists(destination):
            raise ConfigurationError(f"{destination} is there already: choose another name, or --force replaces it")
        if not destination.parent.is_dir():
            raise ConfigurationError(f"{destination.parent}, where {destination.name} is to be written, is no folder")
        staging = unnamed_beside(destination)
        try:
            if folder:
                staging.mkdir()
            yield staging
            for path in [*staging.rglob("*"), staging] if folder else [staging]:
                _sync(path)
            _take_place(staging, destination)
            sync_directory(destination.parent)
        finally:
            _remove(staging)


def _take_place(staging: Path, destination: Path) -> None:
    try:
        staging.replace(destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
            raise
        old = unnamed_beside(destination)
        destination.rename(old)
        try:
            staging.rename(destination)
        except OSError:
            old.rename(destination)
            raise
        sync_directory(destination.parent)  # before the old one goes
        _remove(old)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _translated(destination: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailable(f"{destination} can't be written: {error.strerror or error}") from error
