"""Where the run is to be, and a folder of our own in it for the time of a check."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_resilience.preflight.check import Context, Tell

_OURS = re.compile(r"\.preflight-.+-\d+")
_STALE_S = 86400.0
"""A day: no preflight lasts so long."""


def nearest(run_dir: Path, tell: Tell) -> Path:
    """The run directory, or the nearest folder above it that exists: there it will be made. Raises OSError.

    A folder that may not be looked into, or whose server is dead, is not taken for one that isn't there.
    """
    path = run_dir.absolute()
    while True:
        tell(f"looking at {path}")
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if path == path.parent or path.is_symlink():  # what a link leads to is not made with the run
                raise
            path = path.parent
            continue
        return path


@contextlib.contextmanager
def own_folder(context: Context, parent: Path, tell: Tell) -> Iterator[Path]:
    """A folder in `parent` that is gone afterwards. Raises OSError where it can't be made.

    One that a killed check left behind is removed by the next one, a day later.
    """
    folder = parent / f".preflight-{context.node}-{os.getpid()}"
    tell(f"making {folder}")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:  # of a dead check with our number
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        tell(f"removing {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        _remove_stale(parent)


def _remove_stale(parent: Path) -> None:
    before_s = time.time() - _STALE_S
    with contextlib.suppress(OSError):
        for path in parent.glob(".preflight-*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if _OURS.fullmatch(path.name) and status.st_uid == os.getuid() and status.st_mtime < before_s:
                    shutil.rmtree(path, ignore_errors=True)
