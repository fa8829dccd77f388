"""The one door to the time: what takes a `Clock` can be tested without waiting."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float:
        """Seconds since the epoch; jumps when somebody sets the clock."""

    def monotonic_s(self) -> float:
        """Seconds since some moment; never jumps, the same for every process of a node."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
