"""What is made of measured numbers: medians, with how far they scatter, and differences within pairs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Of one quantity, measured `count` times."""

    median: float
    lowest: float
    highest: float
    count: int

    def text(self, digits: int = 2) -> str:
        spread = f"{self.lowest:.{digits}f} to {self.highest:.{digits}f}"
        return f"{self.median:.{digits}f} ({spread})" if self.count > 1 else f"{self.median:.{digits}f}"


def figure(values: Sequence[float]) -> Figure:
    """Raises ValueError for no values: nothing was measured, and 0 would be a lie."""
    if not values:
        raise ValueError("nothing was measured")
    return Figure(statistics.median(values), min(values), max(values), len(values))


def paired_difference(before: Sequence[float], after: Sequence[float]) -> Figure:
    """Of `after` less `before`, pair by pair: what both of a pair suffered from cancels out."""
    return figure([b - a for a, b in zip(before, after, strict=True)])


def paired_ratio(before: Sequence[float], after: Sequence[float]) -> Figure:
    """Of `after` over `before`, pair by pair."""
    return figure([b / a for a, b in zip(before, after, strict=True)])
