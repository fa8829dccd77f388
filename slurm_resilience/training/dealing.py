"""How the items of a loop are dealt to the ranks, and where to go on when that is done otherwise than before. Pure.

With a DistributedSampler ranks take turns: after n items of b samples on each of r ranks the first n b r samples of an
epoch are done, whoever has had which. So another number of ranks goes on behind the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Dealing:
    ranks: int
    """In all: the world size."""
    hands: int | None = None
    """Ranks that take turns: fewer than all where some get the same, as tensor-parallel ones do. None: not known."""
    samples: int | None = None
    """In one item: the batch size. None: not known."""
    items: int | None = None
    """For each rank, to the end. None: nobody knows before."""

    def to_state(self) -> dict[str, int | None]:
        return asdict(self)

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Dealing:
        return cls(**state)


@dataclass(frozen=True, slots=True)
class Behind:
    """Where to go on."""

    item: int
    samples_again: int
    """So many samples were done already and come once more, because the ranks can't share out what is done evenly."""


def behind(done: int, before: Dealing, now: Dealing) -> Behind:
    """Behind what all ranks have done together in `done` items each, dealt as `before`. No sample is left out."""
    if (before.ranks, before.hands, before.samples) == (now.ranks, now.hands, now.samples):
        return Behind(done, 0)
    if before.items is not None and now.items is not None:
        if 0 < before.items <= done:
            return Behind(now.items, 0)  # the last item of a rank may be smaller, and is one all the same
        if before.hands is None or now.hands is None:  # how far, at least; the same if all ranks get all items
            return Behind(done * now.items // before.items if before.items else done, 0)
    samples = done * _at_once(before, now)
    at_once = _at_once(now, before)
    return Behind(samples // at_once, samples % at_once)


def _at_once(dealing: Dealing, other: Dealing) -> int:
    """Samples that all ranks together have in an item each; items, where either doesn't know."""
    ranks = dealing.ranks if dealing.hands is None or other.hands is None else dealing.hands
    return ranks * (1 if dealing.samples is None or other.samples is None else dealing.samples)
