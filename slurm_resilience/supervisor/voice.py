"""What the supervisor says to people: lines of the job's output."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    """One line. The pipe may be gone: that must not end us."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"srun-resilient: {text}\n")
        sys.stderr.flush()
