"""When the ranks ask each other: at steps that all of them compute alike.

Pure. A rank may never decide by its own clock that it is time to ask: the others would not be there. So the next
boundary to ask at is computed from the answer to the last question alone, which is the same for everybody.

The counter used here is the number of boundaries the loop has come to in this attempt, the first one being 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ASK_EVERY_S = 1.0
MOST_BOUNDARIES = 50
"""Even if steps take microseconds: an answer must not be far away when they suddenly take seconds."""


ANSWER_WITHIN_S = 0.01
"""How long an answer is given to arrive by itself before somebody waits for it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    ask_at: int = 0
    read_at: int = 0
    """Where the answer is read: at the same boundary, by waiting for it, or at a later one, when it has been there
    for long."""

    def after(self, boundary: int, slowest_boundary_s: float | None) -> Schedule:
        """The schedule after an answer read at `boundary`. None: nobody has measured anything yet.

        Steps longer than half of ASK_EVERY_S are asked at every boundary and waited for: that costs less than a
        thousandth of them, and an answer read one boundary later would be a whole step late.
        """
        if slowest_boundary_s is None or not math.isfinite(slowest_boundary_s):
            return Schedule(boundary + 1, boundary + 1)
        boundary_s = max(slowest_boundary_s, 1e-9)
        apart = max(1, min(MOST_BOUNDARIES, math.floor(ASK_EVERY_S / boundary_s)))
        if apart == 1:
            return Schedule(boundary + 1, boundary + 1)
        arriving = max(1, min(apart, math.ceil(ANSWER_WITHIN_S / boundary_s)))
        return Schedule(boundary + apart, boundary + apart + arriving)
