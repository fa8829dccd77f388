"""Asking again what doesn't answer, for as long as there is time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slurm_resilience.clock import Clock
from slurm_resilience.errors import ManifestUnavailable, SlurmUnavailable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asking:
    clock: Clock
    say: Callable[[str], None]
    give_up_s: float
    """When to stop, on the monotonic clock."""

    def until_answered(self, ask: Callable[[], _T], what: str, *, within_s: float | None = None) -> _T:
        """Ask until there is an answer or it is time to give up; then the last ...Unavailable is raised."""
        now_s = self.clock.monotonic_s()
        give_up_s = self.give_up_s if within_s is None else min(self.give_up_s, now_s + within_s)
        pause_s, told = FIRST_PAUSE_S, False
        while True:
            try:
                return ask()
            except (SlurmUnavailable, ManifestUnavailable) as error:
                if self.clock.monotonic_s() + pause_s >= give_up_s:
                    raise
                if not told:
                    self.say(f"{what}, again until it answers: {error}")
                    told = True
            self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
