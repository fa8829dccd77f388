"""Every process of a tree, found twice: by parents (we are their subreaper) and by a marker in the environment.

Read from /proc alone, so that the guardian can do the same without our package.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARKER = "SLURM_RESILIENCE_TREE"
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.02

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> bool:
    """Orphans among our descendants become our children, not init's: they stay findable. False: the kernel refuses."""
    return bool(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    state: str
    """Z for one that has ended and wasn't asked for its code yet."""
    started_ticks: int


def read_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the third on; None where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything, parentheses too


def read_process(pid: int) -> Process | None:
    fields = read_fields(pid)
    return None if fields is None else Process(pid, int(fields[1]), fields[0].decode(), int(fields[19]))


def processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            process = read_process(int(folder.name))
            if process is not None:
                yield process


def variables(pid: int) -> list[bytes]:
    """The environment a process was started with; empty where we may not look."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def children(parent: int) -> list[Process]:
    return [process for process in processes() if process.parent == parent]


def pending_signals(pid: int) -> set[int]:
    """Signals that were sent to a process that blocks them."""
    pending = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(("SigPnd:", "ShdPnd:")):
                pending |= int(line.split()[1], 16)
    return {number for number in range(1, 65) if pending & (1 << (number - 1))}


def tree(root: int, marker: str, spare: frozenset[int]) -> list[Process]:
    """The living descendants of `root`, and who else carries the marker; without `root` and `spare`."""
    everybody = list(processes())
    below: dict[int, list[Process]] = {}
    for process in everybody:
        below.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    waiting = [root]
    while waiting:
        for process in below.get(waiting.pop(), []):
            if process.pid not in found and process.pid not in spare:
                found[process.pid] = process
                waiting.append(process.pid)
    wanted = f"{MARKER}={marker}".encode()
    for process in everybody:
        unknown = process.pid not in found and process.pid != root and process.pid not in spare
        if unknown and wanted in variables(process.pid):
            found[process.pid] = process
    return [process for process in found.values() if process.state not in "ZX"]


def kill_tree(root: int, marker: str, spare: frozenset[int], *, seconds: float, reap: Callable[[], None]) -> int:
    """SIGKILL until nobody of the tree is left, or the time is over. Returns how many are left.

    `reap` is called in between, because a dead child that nobody asks for its code still shows. A process in
    uninterruptible sleep (a file system that doesn't answer) can't be killed by anybody: hence the time.
    """
    end_s = time.monotonic() + seconds
    while True:
        reap()
        left = tree(root, marker, spare)
        if not left or time.monotonic() >= end_s:
            return len(left)
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
