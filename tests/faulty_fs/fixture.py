"""`from tests.faulty_fs.fixture import disk, faulty_disk` gives a test module the fixture `disk`."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faulty_fs.disk import FaultyDisk, why_missing


@pytest.fixture(scope="module")
def faulty_disk(request: pytest.FixtureRequest) -> Iterator[FaultyDisk]:
    need_faulty_disks(request)
    # In memory where possible: what lasts is not the question, and every fsync of a real disk takes its time.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, FaultyDisk(Path(folder)) as disk:
        yield disk


@pytest.fixture
def disk(faulty_disk: FaultyDisk) -> Iterator[FaultyDisk]:
    """A faulty disk without faults yet. It is the module's: what other tests left on it lies there too."""
    yield faulty_disk
    faulty_disk.heal()


def need_faulty_disks(request: pytest.FixtureRequest) -> None:
    """Skips where they can't be had. Not with --slurm=require: there, green must not mean that nothing ran.

    But for a machine whose kernel has no FUSE at all, a container without the device: nothing can be installed there.
    """
    missing = _why_missing()
    if missing and Path("/dev/fuse").exists() and request.config.getoption("slurm") == "require":
        pytest.fail(f"--slurm=require: no faulty disks here: {missing}")
    if missing:
        pytest.skip(missing)


@functools.cache
def _why_missing() -> str:
    missing = why_missing()
    if missing:
        return missing
    with tempfile.TemporaryDirectory() as folder:
        try:
            with FaultyDisk(Path(folder)):
                return ""
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            return f"FUSE file systems can't be mounted here: {error}"
