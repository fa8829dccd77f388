"""How much of the job's time is left, on our own clock, and when to ask Slurm again. Pure.

Slurm names the end of a job's time on the controller's wall clock. A node's wall clock may lag behind that one, and
somebody may set it while the job runs: so it is read once, at the start, and from then on only the monotonic clock
counts. A lag can be proven in one way alone: the job's start, by the controller's clock, lies in our future.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_PAUSE_S = 30.0
LONGEST_PAUSE_S = 600.0
LAST_LOOK_S = 20.0
"""The last question before the stop begins: most controllers that answer at all do so sooner."""
_NEAR_ENOUGH_S = 5.0
"""A look this much before the last one makes that one needless."""
MATERIAL_S = 5.0
"""A change of the end by less than this is rounding: Slurm's times are whole seconds, its limits whole minutes."""


@dataclass(frozen=True, slots=True)
class Bearing:
    """Where the controller's wall clock stands, as seen from this node's monotonic clock."""

    offset_s: float
    """Wall clock less monotonic clock, the proven lag included."""
    lag_s: float
    """By how much our wall clock was behind the controller's at the start, as far as that can be proven."""

    def wall_s(self, monotonic_s: float) -> float:
        return monotonic_s + self.offset_s

    def monotonic_s(self, wall_s: float) -> float:
        return wall_s - self.offset_s


def take_bearing(*, monotonic_s: float, wall_s: float, start_s: float | None) -> Bearing:
    """Both clocks at one moment of a job that, by the controller's clock, began at `start_s` (None: unknown).

    A clock that runs ahead of the controller's can't be told from a late start: it makes us stop early, which loses
    time and nothing else.
    """
    lag_s = 0.0 if start_s is None else max(0.0, start_s - wall_s)
    return Bearing(wall_s - monotonic_s + lag_s, lag_s)


def next_look_s(left_s: float | None) -> float:
    """Seconds until Slurm is asked again, where the stop begins in `left_s` (None: no end is known).

    Half of what is left, so that a limit that was lowered to no less than that is noticed in time; never more often
    than every 30 s, at least every 10 min; and once shortly before the stop begins, to notice that it was raised.
    """
    if left_s is None:
        return LONGEST_PAUSE_S
    pause_s = min(max(left_s / 2, LEAST_PAUSE_S), LONGEST_PAUSE_S)
    if left_s > LAST_LOOK_S + _NEAR_ENOUGH_S:
        return min(pause_s, left_s - LAST_LOOK_S)
    return pause_s


def has_moved(known_s: float | None, told_s: float) -> bool:
    """Whether the end that Slurm names now is another one than the one we know."""
    return known_s is None or abs(told_s - known_s) >= MATERIAL_S
