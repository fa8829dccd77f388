"""What to give up, in which order, when the disk is full. Pure: a plan of steps, each with why."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Union

from slurm_resilience.checkpoint.space.leftovers import Found


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete what a dead attempt left: it is in nobody's manifest."""

    checkpoint: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Let the manifest forget a checkpoint, then delete it: ahead of its time, but replaceable."""

    checkpoint: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class ReleaseBallast:
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This save fails, the training goes on, and somebody has to hear of it."""

    why: str


Step = Union[Sweep, Forget, ReleaseBallast]


@dataclass(frozen=True, slots=True)
class Sized:
    """A live checkpoint, all its parts together."""

    checkpoint: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Relief:
    steps: tuple[Step, ...]
    """In order. Who carries them out looks after each whether it is enough."""
    otherwise: GiveUp


def plan_relief(
    *,
    missing_bytes: int | None,
    left_behind: Sequence[Found],
    live: Sequence[Sized],
    must_stay: AbstractSet[str],
    ballast_bytes: int,
) -> Relief:
    """What makes room for a save that didn't fit, from what nobody misses to what somebody might.

    `missing_bytes`: how much the save lacks; None where nobody can say (a quota that can't be asked). `live` in the
    order of commitment, the oldest first. `must_stay`: the last verified one, the pinned, the milestones; the newest
    stays whether it is named there or not. Of what retention would keep for comfort, no more goes than is missing.
    """
    steps: list[Step] = [
        Sweep(each.checkpoint, each.bytes, "an attempt that is over left it, and no manifest line names it")
        for each in left_behind
    ]
    gained_bytes = sum(each.bytes for each in left_behind)
    for each in live[:-1]:  # the newest stays: a run always has something to go back to
        if missing_bytes is not None and gained_bytes >= missing_bytes:
            break
        if each.checkpoint not in must_stay:
            steps.append(Forget(each.checkpoint, each.bytes, "the disk is full, and newer ones are kept"))
            gained_bytes += each.bytes
    if ballast_bytes > 0:
        # Last: what it frees has to be put back before it helps again.
        steps.append(ReleaseBallast(ballast_bytes, "the disk is full: this is what the ballast is for"))
    return Relief(tuple(steps), GiveUp(_nothing_left(missing_bytes, len(live), len(must_stay))))


def _nothing_left(missing_bytes: int | None, live: int, staying: int) -> str:
    missing = "" if missing_bytes is None else f", {missing_bytes} bytes are missing"
    kept = f"{live} checkpoints are there, {staying} of them have to stay"
    return f"the disk is full{missing}, and nothing is left that may go ({kept}): this save is given up"
