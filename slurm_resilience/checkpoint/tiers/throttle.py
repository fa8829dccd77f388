"""Holding a transfer to its pace, so that it leaves the network and the disks to the training."""

from __future__ import annotations

from slurm_resilience.checkpoint.tiers.pace import Pace
from slurm_resilience.clock import Clock, SystemClock


class Throttle:
    """For one thread. Several transfers that share a limit share the throttle one after the other."""

    def __init__(self, bytes_per_s: float, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._pace = Pace.of(bytes_per_s, now_s=self._clock.monotonic_s())

    def spend(self, count: int) -> None:
        """`count` bytes have passed; sleeps as long as the pace wants."""
        self._pace, sleep_s = self._pace.spend(count, self._clock.monotonic_s())
        if sleep_s > 0:
            self._clock.sleep(sleep_s)
