"""Where a save goes when the usual place refuses. Pure."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A root that parts may be written to."""

    name: str
    """`the run directory`, `the local tier`: as the alarm calls it."""
    root: str
    survives_the_node: bool
    room_bytes: int | None
    """None: nobody can say; tried all the same."""


@dataclass(frozen=True, slots=True)
class WriteTo:
    root: str
    alarm: str
    commits: bool
    """Whether a checkpoint there may be committed. False: it can only be called staged."""


@dataclass(frozen=True, slots=True)
class Nowhere:
    alarm: str


_WHY = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "has no quota left for us",
    errno.EROFS: "is read-only",
    errno.EACCES: "doesn't let us write",
    errno.EPERM: "doesn't let us write",
}


def second_place(
    refused: Candidate, number: int | None, others: Sequence[Candidate], *, save_bytes: int
) -> WriteTo | Nowhere:
    """`refused` said no with errno `number` until the retries were used up. `others` in the order of preference.

    `save_bytes`: of the parts that would go there together. A place that outlives the node is taken before one that
    doesn't, whatever the order.
    """
    why = f"{refused.name} ({refused.root}) {_WHY.get(number or 0, 'refuses to be written to')}"
    fitting = [each for each in others if each.room_bytes is None or each.room_bytes >= save_bytes]
    for each in sorted(fitting, key=lambda candidate: not candidate.survives_the_node):
        kept = "" if each.survives_the_node else ", and is lost with the node until it is copied"
        return WriteTo(
            each.root, f"{why}: this checkpoint goes to {each.name} ({each.root}){kept}", each.survives_the_node
        )
    small = [f"{each.name} has room for {each.room_bytes} of {save_bytes} bytes" for each in others]
    return Nowhere(f"{why}, and there is no second place" + (f" large enough: {'; '.join(small)}" if small else ""))
