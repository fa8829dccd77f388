"""A small file system in a folder of the host, where we may mount one."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_resilience.command import Completed, run
from slurm_resilience.errors import ResilienceError
from tests.clusters.cluster import Impossible

SIZE_BYTES = 4 << 20


def mount_small(folder: Path) -> None:
    """Make `folder` a file system of SIZE_BYTES that everybody may write in. Raises Impossible."""
    folder.mkdir(exist_ok=True)
    answer = _as_root(
        "mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES},mode=1777", "slurm-resilience-test", str(folder)
    )
    if answer is None or answer.code != 0:
        why = "nobody is root here" if answer is None else answer.complaint
        raise Impossible(f"no small file system can be mounted: {why}")


def unmount_words(folder: Path) -> list[str]:
    """The command that undoes it."""
    return as_root_words("umount", "--lazy", str(folder))


def as_root_words(*argv: str) -> list[str]:
    # Hosted runners let their user become root without a password.
    return list(argv) if os.geteuid() == 0 else ["sudo", "--non-interactive", *argv]


def _as_root(*argv: str) -> Completed | None:
    try:
        return run(as_root_words(*argv), timeout_s=20)
    except ResilienceError:
        return None
