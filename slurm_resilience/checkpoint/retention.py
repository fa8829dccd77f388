"""Which checkpoints a run can do without. Pure: the caller records and deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Kept(Protocol):
    """What must be known of a live checkpoint: committed, not forgotten, not damaged."""

    @property
    def checkpoint(self) -> str: ...

    @property
    def step(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Live:
    """The plainest `Kept`."""

    checkpoint: str
    step: int


@dataclass(frozen=True, slots=True)
class Forget:
    checkpoint: str
    why: str


def plan_retention(
    live: Sequence[Kept], *, keep_last: int, keep_every: int | None, pinned: frozenset[str]
) -> list[Forget]:
    """What to forget of `live`, which is in the order of commitment, oldest first. Oldest first, too.

    Kept are the last `keep_last` committed (not the highest steps: a run that walked back commits lower steps later,
    and those are its present), the first at or after every multiple of `keep_every` steps (saves need not fall on
    multiples), and all that are pinned. The newest is kept whatever is asked for: a run always has something to go
    back to.
    """
    if keep_last < 1:
        raise ValueError(f"keep_last is {keep_last}: at least 1 checkpoint has to be kept")
    if keep_every is not None and keep_every < 1:
        raise ValueError(f"keep_every is {keep_every}: a distance between steps is at least 1")
    milestones = set() if keep_every is None else _milestones(live, keep_every)
    recent = {kept.checkpoint for kept in live[-keep_last:]}
    return [
        Forget(kept.checkpoint, _why(keep_last, keep_every))
        for kept in live
        if kept.checkpoint not in recent | milestones | pinned
    ]


def _milestones(live: Sequence[Kept], keep_every: int) -> set[str]:
    first: dict[int, Kept] = {}
    for kept in live:
        multiple = kept.step // keep_every
        # Of two at one step the later stays: a run that walked back has made it anew.
        if multiple > 0 and (multiple not in first or kept.step <= first[multiple].step):
            first[multiple] = kept
    return {kept.checkpoint for kept in first.values()}


def _why(keep_last: int, keep_every: int | None) -> str:
    asked = "the last one" if keep_last == 1 else f"the last {keep_last}"
    verb = "is" if keep_last == 1 and keep_every is None else "are"
    every = "" if keep_every is None else f" and one every {keep_every} steps"
    return f"only {asked}{every} {verb} kept"
