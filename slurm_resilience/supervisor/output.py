"""Where this job's output goes, and how much of it was there before an attempt began."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_STDERR = 2


@dataclass(frozen=True, slots=True)
class Output:
    path: Path
    since_byte: int

    @classmethod
    def of_this_process(cls) -> Output | None:
        """None: it goes to a terminal or a pipe, and nobody can read it again."""
        try:
            status = os.fstat(_STDERR)
            if not stat.S_ISREG(status.st_mode):
                return None
            return cls(Path(f"/proc/self/fd/{_STDERR}").readlink(), status.st_size)
        except OSError:
            return None
