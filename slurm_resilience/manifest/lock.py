"""One writer of a run at a time: flock where the file system has it, a hard link where it hasn't.

flock is let go by the kernel when its holder dies, so it is the first choice. Some file systems refuse it (Lustre
mounted without `flock`, some FUSE): then `link_lock` takes over, says so once, and leaves a mark beside the lock so
that every process of this run, wherever it runs, uses the same kind from then on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.durable_file import replace_durably
from slurm_resilience.errors import ManifestUnavailable
from slurm_resilience.manifest.link_lock import LinkLock

NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
PATIENCE_S = 30.0
_LINK_PATIENCE = 4  # times as long: a link isn't let go by itself when another host dies
_SETTLE_S = 2.0
_MARK = b"flock is refused on this file system: writers of this run use hard links instead, on every host.\n"


class NativeLock(Protocol):
    def acquire(self, timeout_s: float) -> bool:
        """False: somebody else held it all the time. Raises OSError or NotImplementedError where it can't work."""

    def release(self) -> None: ...


class Flock:
    """flock through the filelock package."""

    def __init__(self, path: Path) -> None:
        from filelock import FileLock  # here: readers never need it, and it takes longer to load than all of us

        # Its own soft lock breaks what it takes for stale; ours wants proof.
        self._lock = FileLock(path, fallback_to_soft=False, thread_local=False)

    def acquire(self, timeout_s: float) -> bool:
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=timeout_s)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        context = getattr(self._lock, "_context", None)  # filelock's own: it has no other way to a descriptor it keeps
        descriptor = getattr(context, "lock_file_fd", None)
        try:
            self._lock.release()
        except OSError:
            if context is None or descriptor is None:
                raise
            with contextlib.suppress(OSError):
                os.close(descriptor)  # that is what lets go for sure
            context.lock_file_fd = None


def say_on_stderr(sentence: str) -> None:
    sys.stderr.write(f"slurm-resilience: {sentence}\n")


class RunLock:
    """`with RunLock(path): …` Nobody else is inside, on any host that sees the same files.

    Raises ManifestUnavailable where it can't be had in time. Not reentrant.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience_s: float = PATIENCE_S,
        clock: Clock | None = None,
        native: Callable[[Path], NativeLock] = Flock,
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self.path = path
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        self._native = native
        self._say = say
        self._held: NativeLock | LinkLock | None = None

    @property
    def mark(self) -> Path:
        """Whether it exists says which kind of lock this run uses."""
        return self.path.with_name(f"{self.path.name}.by-link")

    def __enter__(self) -> None:
        if not self._by_link():
            try:
                native = self._native(self.path)
                if not native.acquire(self._patience_s):
                    raise ManifestUnavailable(
                        f"{self.path} is held by {_holder(self.path)} for more than {self._patience_s:g} s"
                    )
            except NotImplementedError:
                self._fall_back()
            except OSError as error:
                if error.errno not in NO_FLOCK:
                    raise ManifestUnavailable(f"{self.path} can't be locked: {error}") from error
                self._fall_back()
            else:
                try:
                    by_link = self._by_link()
                except ManifestUnavailable:
                    native.release()
                    raise
                if not by_link:
                    self._held = native
                    return
                native.release()  # somebody found in the meantime that flock doesn't work everywhere
        link = LinkLock(self.path, patience_s=_LINK_PATIENCE * self._patience_s, clock=self._clock)
        link.acquire()
        self._held = link

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _by_link(self) -> bool:
        try:
            return self.mark.exists()
        except OSError as error:
            raise ManifestUnavailable(f"{self.mark} can't be looked for: {error.strerror or error}") from error

    def _fall_back(self) -> None:
        self._say(f"the file system of {self.path} refuses flock: a lock by hard link is used for this run instead")
        try:
            replace_durably(self.mark, _MARK)
        except OSError as error:
            raise ManifestUnavailable(f"{self.mark} can't be written: {error}") from error
        self._clock.sleep(_SETTLE_S)  # another host may have had its flock just before the mark: let it finish


def _holder(path: Path) -> str:
    """As far as this host knows: the kernel lists the locks of its own processes only."""
    try:
        inode = path.stat().st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return "another process"
    for words in map(str.split, locks):
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF; on NFS the second word is POSIX; -> marks one that waits
        if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == str(inode):
            return f"process {words[4]} on this host"
    return "another process, not on this host as far as it knows"
