"""A file system that refuses flock, and a clock that needs no waiting."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class RefusedFlock:
    """What `Flock` is on Lustre mounted without `flock`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def acquire(self, timeout_s: float) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def release(self) -> None:
        raise AssertionError("it was never held")


class HurriedClock:
    """Its time passes by sleeping only, and sleeping takes none."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now_s(self) -> float:
        return 1_700_000_000.0 + self.passed_s

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds
