"""When a periodic save is due. Pure: the time comes in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

RETRY_AFTER_S = 60.0
"""How soon a save that failed twice is tried again, where the next periodic one is further off."""


@dataclass(frozen=True, slots=True)
class SaveRhythm:
    """By minutes on rank 0's clock, by steps on everybody's, or both."""

    every_s: float | None
    every_steps: int | None
    due_s: float = math.inf

    def started(self, now_s: float) -> SaveRhythm:
        return replace(self, due_s=math.inf if self.every_s is None else now_s + self.every_s)

    def saved(self, now_s: float) -> SaveRhythm:
        return self.started(now_s)

    def failed(self, now_s: float) -> SaveRhythm:
        following = self.started(now_s)
        return replace(following, due_s=min(following.due_s, now_s + RETRY_AFTER_S))

    def due_by_time(self, now_s: float) -> bool:
        return now_s >= self.due_s

    def due_by_steps(self, step: int) -> bool:
        """The same on every rank, as long as all are at the same step."""
        return self.every_steps is not None and step > 0 and step % self.every_steps == 0
