"""The one door to how much memory there is: the machine's, and what the job's control group leaves of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 says "no limit" by a number about as large as it can."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    available_bytes: int
    limit_bytes: int | None
    """What the tightest control group above this process leaves, counting what its page cache would give back."""


@dataclass(frozen=True, slots=True)
class _Files:
    """What a version of control groups calls its files."""

    limit: str
    usage: str
    reclaimable: str


_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")


def node_memory(root: Path = Path("/")) -> NodeMemory:
    """As /proc and /sys below `root` say. OSError without /proc/meminfo; what can't be read of groups is no limit."""
    left = list(_left(root))
    return NodeMemory(_available_bytes(root), min(left) if left else None)


def _available_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise OSError("/proc/meminfo says nothing of MemAvailable")


def _left(root: Path) -> Iterator[int]:
    """What each group that this process is in leaves, from its own up to the top."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and controllers == "":
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):  # the second where both versions are in use
                yield from _left_above(root / mount, path, _VERSION_2)
        elif "memory" in controllers.split(","):
            yield from _left_above(root / "sys/fs/cgroup/memory", path, _VERSION_1)


def _left_above(mount: Path, path: str, files: _Files) -> Iterator[int]:
    """In a container the path may be the host's: what isn't there is passed over."""
    group = PurePosixPath(path.lstrip("/"))
    for relative in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            folder = mount / relative
            limit_bytes = int((folder / files.limit).read_text(encoding="ascii"))
            if limit_bytes < _NO_LIMIT_BYTES:
                usage_bytes = int((folder / files.usage).read_text(encoding="ascii"))
                yield max(limit_bytes - usage_bytes + _reclaimable_bytes(folder, files), 0)


def _reclaimable_bytes(folder: Path, files: _Files) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == files.reclaimable:
                return int(value)
    return 0
