"""What the supervisor looks after while a step runs: the publisher, the successor, the end of the job's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_resilience.clock import Clock
from slurm_resilience.supervisor.succession_watch import SuccessionWatch
from slurm_resilience.supervisor.time_watch import TimeWatch

if TYPE_CHECKING:  # loaded where it is asked for
    from slurm_resilience.supervisor.publisher import Publisher

SETTLE_S = 30.0
"""A little longer than a command of Slurm's may take."""


@dataclass(frozen=True, slots=True)
class Beside:
    attempt: int
    publisher: Publisher | None
    successor: SuccessionWatch | None
    time: TimeWatch | None
    clock: Clock

    def begin(self) -> None:
        """Before the step: once a successor is queued the run goes on whatever dies."""
        if self.successor is not None:
            self.successor.look(self.attempt)

    def tend(self) -> None:
        """Never waits, never raises."""
        if self.publisher is not None:
            self.publisher.tend(self.attempt)
        if self.successor is not None:
            self.successor.tend(self.attempt)
        if self.time is not None:
            self.time.tend()

    def settle(self, give_up_s: float) -> None:
        """Let questions that are under way be answered: neither a fork nor the end of the attempt may meet them."""
        for watch in (self.successor, self.time):
            if watch is not None:
                watch.settle(max(0.0, min(SETTLE_S, give_up_s - self.clock.monotonic_s())))

    def job_ends_s(self, known_s: float | None) -> float | None:
        """Since the epoch; `known_s`: as it was at the start."""
        return known_s if self.time is None else self.time.end_s
