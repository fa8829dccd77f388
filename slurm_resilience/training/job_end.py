"""When the job's time is over, as it is now: people and Slurm move it, and then a file on the node says so."""

from __future__ import annotations

import json
import math
from pathlib import Path

from slurm_resilience.clock import Clock

LOOK_S = 5.0
"""How often the file is looked at, which lies in the node's memory."""
SHARED_LOOK_S = 30.0
"""The same where it lies on a file server that all ranks ask."""


class JobEnd:
    """`file` None: nobody would tell. What can't be read says nothing: the last known end stands."""

    def __init__(self, known_s: float | None, file: Path | None, clock: Clock, *, look_s: float = LOOK_S) -> None:
        """`known_s`: since the epoch, as it was at the start; None: no limit known."""
        self._end_s = known_s
        self._file = file
        self._clock = clock
        self._apart_s = look_s
        self._look_s = -math.inf
        self._seen: tuple[int, int] | None = None

    def end_s(self) -> float | None:
        """Seconds since the epoch; None: no limit is known. Looks at the file once in a while."""
        if self._file is not None and self._clock.monotonic_s() >= self._look_s:
            self._look_s = self._clock.monotonic_s() + self._apart_s
            self._look(self._file)
        return self._end_s

    def seconds_left(self) -> float | None:
        """Below zero where the end has passed, and Slurm has not come yet."""
        end_s = self.end_s()
        return None if end_s is None else end_s - self._clock.now_s()

    def monotonic_s(self) -> float | None:
        """The end on the monotonic clock of this process."""
        left_s = self.seconds_left()
        return None if left_s is None else self._clock.monotonic_s() + left_s

    def _look(self, file: Path) -> None:
        try:
            status = file.stat()
            version = (status.st_ino, status.st_mtime_ns)
            if version == self._seen:
                return
            end_s = json.loads(file.read_bytes())["end_s"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._seen = version
        if isinstance(end_s, (int, float)) and not isinstance(end_s, bool) and math.isfinite(end_s):
            self._end_s = float(end_s)
