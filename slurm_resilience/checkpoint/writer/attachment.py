"""The arena that a writer has mapped: kept for the next job, which most often comes with the same one."""

from __future__ import annotations

import os

from slurm_resilience.checkpoint.disk.arena import Arena


class Attachment:
    """Mapping 2 GiB and letting them go takes half a second where pages are small: once an arena, not once a job.

    It costs the rank nothing: when it gives an arena back it empties it, whoever has it mapped.
    """

    def __init__(self) -> None:
        self._arena: Arena | None = None
        self._which: tuple[int, int, int] | None = None

    def attach(self, descriptor: int, size_bytes: int) -> Arena:
        """The arena behind `descriptor`, which is ours to close from now on. Raises OSError and ValueError."""
        try:
            status = os.fstat(descriptor)
            which = (status.st_dev, status.st_ino, size_bytes)
            if self._arena is None or self._which != which:
                self.close()
                self._arena = Arena.attach(descriptor, size_bytes)
                self._which = which
                descriptor = -1  # the arena's from here on
            return self._arena
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def close(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None
