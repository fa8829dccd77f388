"""What every transfer asks between two pieces: may I go on, how fast, and who is watching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_resilience.checkpoint.store import Progress
from slurm_resilience.checkpoint.tiers.throttle import Throttle

PIECE_BYTES = 8 << 20


class Interrupted(Exception):
    """Told to stop between two pieces. What has arrived stays, and the next try goes on from there."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Transit:
    stop: Callable[[], bool] = _never
    throttle: Throttle | None = None
    progress: Progress | None = None

    def check(self) -> None:
        if self.stop():
            raise Interrupted

    def passed(self, count: int) -> None:
        """`count` bytes have been moved."""
        self.found(count)
        if self.throttle is not None:
            self.throttle.spend(count)
        self.check()

    def found(self, count: int) -> None:
        """`count` bytes need not be moved: they are there already."""
        if self.progress is not None:
            self.progress(count)
