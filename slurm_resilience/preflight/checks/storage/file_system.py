"""Of what kind a file system is, and where it comes from, by /proc/self/mountinfo: nobody has to be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from slurm_resilience.preflight.checks.reading import text_of

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class FileSystem:
    kind: str
    source: str
    where: PurePosixPath
    read_only: bool


def file_system_of(path: Path, root: Path = Path("/")) -> FileSystem | None:
    """Of `path`, an absolute one without links: the last mount among those nearest above it."""
    found = None
    for mount in mounts(root):
        above = PurePosixPath(path).is_relative_to(mount.where)
        if above and (found is None or len(mount.where.parts) >= len(found.where.parts)):
            found = mount
    return found


def mounts(root: Path = Path("/")) -> list[FileSystem]:
    """In the order in which they were mounted, each on top of those before."""
    lines = (text_of(root / "proc" / "self" / "mountinfo") or "").splitlines()
    return [mount for mount in map(_read, lines) if mount is not None]


def _read(line: str) -> FileSystem | None:
    head, separator, tail = line.partition(" - ")
    fields, rest = head.split(), tail.split()
    if not separator or len(fields) < 6 or len(rest) < 2:
        return None
    options = {*fields[5].split(","), *(rest[2].split(",") if len(rest) > 2 else ())}
    return FileSystem(rest[0], _plain(rest[1]), PurePosixPath(_plain(fields[4])), "ro" in options)


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda each: chr(int(each[1], 8)), text)
