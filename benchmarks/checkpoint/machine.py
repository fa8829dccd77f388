"""What is read of the machine, and what is done to it, around a measurement."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

_LOOK_S = 0.02


def cpu_s() -> float:
    """Of all threads of this process, and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def page_cache_bytes() -> int:
    """Of files. Shared memory is counted by the kernel as cache too, and is none."""
    return meminfo_bytes("Cached") - meminfo_bytes("Shmem")


def files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def bytes_on_disk(folder: Path) -> int:
    """A file with several names is counted once."""
    found = {(status.st_dev, status.st_ino): status.st_blocks * 512 for status in map(os.stat, files_below(folder))}
    return sum(found.values())


def empty(folder: Path) -> None:
    """Remove what is in `folder`, and wait until the disk has nothing left to do for it."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    os.sync()


def sync_all(folder: Path) -> None:
    """What is below `folder` is durable afterwards: for libraries that don't see to it."""
    for path in [*files_below(folder), *(each for each in folder.rglob("*") if each.is_dir()), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def forget(path: Path) -> None:
    """Have nothing of the files at `path` in the page cache. (The host below a virtual machine may still have it.)"""
    for file in files_below(path) if path.is_dir() else [path]:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    with contextlib.suppress(OSError):  # root's right
        Path("/proc/sys/vm/drop_caches").write_text("1")


def remember(path: Path) -> None:
    """Have all of it in the page cache."""
    block = bytearray(8 << 20)
    for file in files_below(path) if path.is_dir() else [path]:
        with file.open("rb", buffering=0) as reading:
            while reading.readinto(block):
                pass


def memory_of_us_bytes() -> int:
    """Of this process and its descendants, what they share counted once (their proportional set sizes)."""
    return sum(_proportional_bytes(pid) for pid in _with_descendants(os.getpid()))


class PeakMemory:
    """`with` watches: how much more this process and its descendants hold at most than they did at the beginning."""

    def __init__(self) -> None:
        self.more_bytes = 0
        self._before_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:  # noqa: PYI034 typing.Self is not in Python 3.10
        self._before_bytes = memory_of_us_bytes()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        # Seen twice in a row: a process that maps what another has, between looks at both, is counted twice once.
        last_bytes = 0
        while not self._over.is_set():
            more_bytes = memory_of_us_bytes() - self._before_bytes
            self.more_bytes = max(self.more_bytes, min(more_bytes, last_bytes))
            last_bytes = more_bytes
            time.sleep(_LOOK_S)


def seconds(action: Callable[[], object]) -> float:
    """What `action` returns is let go behind the clock: giving memory back takes time too."""
    began_s = time.perf_counter()
    kept = action()
    took_s = time.perf_counter() - began_s
    del kept
    return took_s


def meminfo_bytes(name: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"/proc/meminfo says nothing of {name}")


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                yield from _with_descendants(int(child))


def _proportional_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):  # it is gone
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
