"""Restoring the ballast beside the training: in a thread of the lowest priority, and out of the way when told."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from slurm_resilience.checkpoint.space.ballast import Ballast, NotRestored, Restored
from slurm_resilience.checkpoint.space.room import Room


class BallastKeeper:
    """On rank 0. `keep` after a commit, `release` when a save was refused for want of room."""

    def __init__(self, ballast: Ballast, *, room: Callable[[], Room]) -> None:
        self._ballast = ballast
        self._room = room
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self.outcome: Restored | NotRestored | None = None
        """Of the last `keep` that has ended."""

    def keep(self, size_bytes: int, *, spare_bytes: int) -> None:
        """Begin to restore, unless that is going on. Returns at once, never raises."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stopped.clear()
        # A daemon: half a ballast is a smaller ballast, the next attempt completes it.
        thread = threading.Thread(target=self._restore, args=(size_bytes, spare_bytes), daemon=True)
        with contextlib.suppress(RuntimeError):  # as many as the job's limit allows: it is tried again after a save
            thread.start()
            self._thread = thread

    def release(self) -> int:
        """How many bytes were given back. Waits for the block that is being written. Raises OSError."""
        self.wait(stop=True)
        return self._ballast.release()

    def wait(self, *, stop: bool = False) -> None:
        """Until the thread is done, or (`stop`) has left between two blocks."""
        if stop:
            self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _restore(self, size_bytes: int, spare_bytes: int) -> None:
        with contextlib.suppress(OSError):
            # Of this thread alone, on Linux; the priority of its reads and writes follows.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        try:
            room = self._room()
        except OSError as error:
            self.outcome = NotRestored(f"nobody can say how much room there is: {error}")
            return
        self.outcome = self._ballast.restore(size_bytes, room, spare_bytes=spare_bytes, stop=self._stopped.is_set)
