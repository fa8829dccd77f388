"""The processes of this node, as /proc tells them to an ordinary user."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.preflight.checks.reading import names_in, text_of

_JOB_OF_CGROUP = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_KERNEL_THREADS = 2
"""The pid of kthreadd, the parent of them all."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    user: int
    """By number: a directory service that hangs must not hang us."""
    name: str
    state: str
    """One letter: R runs, D waits for the kernel and can't be killed."""
    threads: int

    @property
    def of_the_kernel(self) -> bool:
        return _KERNEL_THREADS in (self.pid, self.parent)


def processes(root: Path) -> Iterator[Process]:
    """What vanishes meanwhile is left out."""
    for pid in _pids(root / "proc"):
        process = process_of(root, pid)
        if process is not None:
            yield process


def process_of(root: Path, pid: int) -> Process | None:
    folder = root / "proc" / str(pid)
    stat = text_of(folder / "stat")
    try:
        user = folder.stat().st_uid  # the effective one; root's for a process that may not be looked into
    except OSError:
        return None
    if stat is None or ")" not in stat:
        return None
    head, _, tail = stat.rpartition(")")  # a name may hold brackets
    fields = tail.split()
    if len(fields) < 18:
        return None
    return Process(pid, int(fields[1]), user, head.partition("(")[2], fields[0], int(fields[17]))


def job_of(root: Path, pid: int) -> str | None:
    """The Slurm job of a process, by its cgroup or its environment. None: none, or it can't be told."""
    folder = root / "proc" / str(pid)
    of_cgroup = _JOB_OF_CGROUP.search(text_of(folder / "cgroup") or "")
    if of_cgroup:
        return of_cgroup[1]
    for variable in (text_of(folder / "environ") or "").split("\0"):
        name, _, value = variable.partition("=")
        if name == "SLURM_JOB_ID" and value:
            return value
    return None


def opened_by(root: Path, pid: int) -> list[str]:
    """The paths of what a process has open: only its own user, and root, may know."""
    descriptors = root / "proc" / str(pid) / "fd"
    opened = []
    for name in names_in(descriptors):
        with contextlib.suppress(OSError):  # closed meanwhile
            opened.append(str((descriptors / name).readlink()))
    return opened


def _pids(proc: Path) -> list[int]:
    return sorted(int(name) for name in names_in(proc) if name.isdecimal())
