"""What is wanted of the package, and whether what was measured is that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.checkpoint.rounds import Part
from benchmarks.figures import Figure, figure, paired_ratio


@dataclass(frozen=True)
class Side:
    """One quantity of one method."""

    part: str
    method: str
    quantity: str


@dataclass(frozen=True)
class Goal:
    """`of` over `than`, paired by round; without `than`, `of` itself."""

    text: str
    of: Side
    than: Side | None
    bound: Literal["at least", "at most"]
    limit: float


@dataclass(frozen=True)
class Judged:
    goal: Goal
    found: Figure | None
    """None: one of its sides wasn't measured."""

    @property
    def met(self) -> bool | None:
        """By the median."""
        if self.found is None:
            return None
        if self.goal.bound == "at least":
            return self.found.median >= self.goal.limit
        return self.found.median <= self.goal.limit


def judged(goal: Goal, parts: Mapping[str, Part]) -> Judged:
    of = _values(goal.of, parts)
    if goal.than is None:
        return Judged(goal, figure(of) if of else None)
    than = _values(goal.than, parts)
    if not of or len(of) != len(than):
        return Judged(goal, None)
    return Judged(goal, paired_ratio(than, of))


def _values(side: Side, parts: Mapping[str, Part]) -> list[float]:
    part = parts.get(side.part)
    return [] if part is None else part.values(side.method, side.quantity)
