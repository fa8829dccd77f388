"""The agent's own lines on stderr: few, and never worth dying or waiting for."""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import dataclass

_STDERR = 2
_WHOLE_BYTES = 4000
"""Below PIPE_BUF: a pipe that says it is writable takes as much at once."""


@dataclass(frozen=True, slots=True)
class Log:
    name: str
    """n0, or t5 for a task."""

    def say(self, text: str) -> None:
        """One line, or nothing: srun may have closed the pipe (EPIPE), or stopped reading it (full)."""
        line = f"srun-resilient[{self.name}]: {text}\n".encode(errors="replace")[:_WHOLE_BYTES]
        with contextlib.suppress(OSError):
            writable = select.poll()
            writable.register(_STDERR, select.POLLOUT)
            if any(happened & select.POLLOUT for _, happened in writable.poll(0)):
                os.write(_STDERR, line)
