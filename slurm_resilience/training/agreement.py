"""How all ranks come to do the same thing after the same step.

Every rank says what it knows as a row of integers; the maximum over all ranks is the answer, the same for everybody.
At most boundaries nothing is said at all: see schedule.py.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ResilienceError
from slurm_resilience.training.schedule import Schedule

_FAR_MS = 1 << 53
"""No deadline, in milliseconds: longer than any job, and safe to negate."""


class RanksDisagree(ResilienceError):
    """The ranks are not at the same place of the same loop: whatever we saved would be no state of the training."""


class Want(enum.IntEnum):
    """What a rank wants saved; the largest one wins."""

    NOTHING = 0
    PERIODIC = 1
    ASKED = 2


class InFlight(enum.IntEnum):
    """How far a rank is with a save in the background; the largest one wins. All ranks begin one at the same step."""

    NOTHING = 0
    DONE = 1  # in this rank's hands nothing is left to do
    WRITING = 2


@dataclass(frozen=True, slots=True)
class Statement:
    """What one rank says."""

    step: int
    stop: int = 0
    """The number of a StopReason; 0: nobody asked this rank to stop."""
    seconds_left: float = math.inf
    want: Want = Want.NOTHING
    boundary_s: float | None = None
    """How long this rank's boundaries lie apart."""
    leaving: bool = False
    """The loop has ended and this rank is on its way out of the run."""
    in_flight: InFlight = InFlight.NOTHING

    def row(self) -> list[int]:
        left_ms = _FAR_MS if math.isinf(self.seconds_left) else max(0, math.floor(self.seconds_left * 1000))
        boundary_us = -1 if self.boundary_s is None else math.ceil(self.boundary_s * 1e6)
        leaving = int(self.leaving)
        in_flight = int(self.in_flight)
        return [self.step, -self.step, self.stop, -left_ms, int(self.want), boundary_us, leaving, -leaving, in_flight]


@dataclass(frozen=True, slots=True)
class Answer:
    """What all ranks together said: the same on each of them."""

    stop: int
    seconds_left: float
    """Counted from when the question was asked."""
    want: Want
    slowest_boundary_s: float | None
    in_flight: InFlight = InFlight.NOTHING
    """DONE: a save in the background, begun before the question was asked, is done on every rank."""


def answer_of(row: Sequence[int]) -> Answer:
    """Raises RanksDisagree where the maximum and the minimum of what must be equal are not."""
    most, least, stop, left_ms, want, boundary_us, leaving, staying, in_flight = row
    if leaving != -staying:
        raise RanksDisagree(
            f"at step {most} some ranks have left their training loop while others go on: "
            "give every rank the same number of batches"
        )
    if most != -least:
        raise RanksDisagree(
            f"one rank has completed {most} steps and another {-least}: every rank must take the same steps"
        )
    return Answer(
        stop=stop,
        seconds_left=math.inf if -left_ms >= _FAR_MS else -left_ms / 1000,
        want=Want(want),
        slowest_boundary_s=None if boundary_us < 0 else boundary_us / 1e6,
        in_flight=InFlight(in_flight),
    )


class Pending(Protocol):
    def wait(self) -> list[int]:
        """The maximum over all ranks, position by position. Raises PeersGone."""


class Reduction(Protocol):
    def start_max(self, row: Sequence[int]) -> Pending:
        """Give this rank's row; every rank must, in the same order."""


class Agreement:
    """One rank's side. All ranks must call `at_boundary` equally often, and `settle` after the same boundary."""

    def __init__(self, reduction: Reduction, clock: Clock) -> None:
        self._reduction = reduction
        self._clock = clock
        self._schedule = Schedule()
        self._boundary = -1
        self._pending: Pending | None = None
        self._asked_s = 0.0
        self._measured: tuple[int, float] | None = None

    def due(self) -> bool:
        """Count one boundary, and say whether something is said or read at it. Almost always: no."""
        self._boundary += 1
        return self._boundary >= (self._schedule.ask_at if self._pending is None else self._schedule.read_at)

    def exchange(self, statement: Statement) -> Answer | None:
        """What to do where `due()` said so. None: the question is on its way."""
        if self._pending is None:
            self._ask(statement)
            if self._boundary < self._schedule.read_at:
                return None
        return self._read()

    def at_boundary(self, statement: Statement) -> Answer | None:
        return self.exchange(statement) if self.due() else None

    def settle(self, statement: Statement) -> Answer:
        """Outside the rhythm: read what is on its way, then ask once more and wait.

        The first answer is not lost: what it wanted is still wanted by whoever said so.
        """
        if self._pending is not None:
            self._pending.wait()
            self._pending = None
        self._ask(statement)
        return self._read()

    @property
    def asked_s(self) -> float:
        """When this rank last asked, on its monotonic clock: `seconds_left` counts from there."""
        return self._asked_s

    def boundary_s(self) -> float | None:
        """How long this rank's boundaries have lain apart since it last asked."""
        if self._measured is None or self._boundary <= self._measured[0]:
            return None
        return (self._clock.monotonic_s() - self._measured[1]) / (self._boundary - self._measured[0])

    def _ask(self, statement: Statement) -> None:
        self._asked_s = self._clock.monotonic_s()
        self._measured = (self._boundary, self._asked_s)
        self._pending = self._reduction.start_max(statement.row())

    def _read(self) -> Answer:
        assert self._pending is not None
        row = self._pending.wait()
        self._pending = None
        answer = answer_of(row)
        self._schedule = self._schedule.after(self._boundary, answer.slowest_boundary_s)
        return answer
