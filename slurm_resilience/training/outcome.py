"""What becomes of a save, as the training hears of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_resilience.manifest.records import CheckpointId


@dataclass(frozen=True, slots=True)
class Saved:
    checkpoint: CheckpointId
    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotSaved:
    why: str
    errno: int | None = None
    """The file system's, where it was the one that refused."""
    staged: Path | None = None
    """The second place that has the state. It is no checkpoint yet: the next start makes it one."""
    late: bool = False
    """A writer still has it in hand, and may come to an end with it."""

    def but_staged(self, where: Path | None) -> NotSaved:
        if where is None:
            return self
        return replace(self, why=f"{self.why}; it is staged in {where}", staged=where)


def first_known(numbers: Iterable[int | None]) -> int | None:
    return next((number for number in numbers if number is not None), None)
