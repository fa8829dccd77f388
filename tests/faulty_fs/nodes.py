"""Files of the folder below a faulty disk, under the numbers by which the kernel knows them."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

ROOT = 1


@dataclass(slots=True)
class _Node:
    descriptor: int
    """O_PATH: it follows its file through renames and survives its unlinking."""
    key: tuple[int, int]
    lookups: int = 0


@dataclass(slots=True)
class Handle:
    descriptor: int
    direct: bool
    entries: list[tuple[str, int, int]] | None = None
    """Of a folder: name, inode and kind, as they were when it was opened."""


@dataclass(slots=True)
class Nodes:
    """Numbers to files and back, and the open ones. Used by several threads."""

    top: Path
    _by_id: dict[int, _Node] = field(default_factory=dict)
    _by_key: dict[tuple[int, int], int] = field(default_factory=dict)
    _handles: dict[int, Handle] = field(default_factory=dict)
    _next: int = ROOT
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open_root(self) -> None:
        self._add(os.open(self.top, os.O_PATH | os.O_DIRECTORY))

    def look_up(self, parent: int, name: str) -> tuple[int, os.stat_result]:
        """The number of `name` in `parent`, looked up once more. Raises OSError."""
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self.descriptor(parent))
        status = os.fstat(descriptor)
        return self._add(descriptor), status

    def _add(self, descriptor: int) -> int:
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        with self._lock:
            number = self._by_key.get(key)
            if number is None:
                number = self._next
                self._next += 1
                self._by_key[key] = number
                self._by_id[number] = _Node(descriptor, key)
            else:
                os.close(descriptor)
            self._by_id[number].lookups += 1
            return number

    def forget(self, number: int, lookups: int) -> None:
        with self._lock:
            node = self._by_id.get(number)
            if node is None or number == ROOT:
                return
            node.lookups -= lookups
            if node.lookups <= 0:
                del self._by_id[number], self._by_key[node.key]
                os.close(node.descriptor)

    def descriptor(self, number: int) -> int:
        with self._lock:
            return self._by_id[number].descriptor

    def path(self, number: int) -> str:
        """For opening it anew: the magic link that leads to the file itself, whatever it is called by now."""
        return f"/proc/self/fd/{self.descriptor(number)}"

    def name(self, number: int) -> str:
        """What it is called now, below the top, for faults that look at names."""
        try:
            return os.path.relpath(Path(self.path(number)).readlink(), self.top)
        except (OSError, KeyError):
            return "?"

    def open(self, path: str, flags: int, *, direct: bool) -> int:
        return self.keep(Handle(os.open(path, flags), direct))

    def keep(self, handle: Handle) -> int:
        with self._lock:
            number = handle.descriptor
            self._handles[number] = handle
            return number

    def handle(self, number: int) -> Handle:
        with self._lock:
            return self._handles[number]

    def close(self, number: int) -> None:
        with self._lock:
            handle = self._handles.pop(number)
        os.close(handle.descriptor)
