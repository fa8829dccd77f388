"""What became of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from slurm_resilience.checkpoint.store import PartReceipt


@dataclass(frozen=True, slots=True)
class Written:
    """Durable under its final name, and finished."""

    receipt: PartReceipt
    seconds: float
    """From when the writer began until all was done."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not written, or not finished: what may lie there is inert."""

    errno: int | None
    """The file system's, where it was the one that refused."""
    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The writer died. What it was writing lies there whole, or not at all."""

    why: str


Outcome = Union[Written, Refused, Gone]
