"""Which checkpoints to publish next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True, slots=True)
class Candidate:
    checkpoint: str
    live: bool
    """Committed, not forgotten, not damaged."""
    published: bool
    """At the place in question."""


@dataclass(frozen=True, slots=True)
class Send:
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Skip:
    checkpoint: str
    why: str


Choice = Union[Send, Skip]


def plan_publishing(candidates: Sequence[Candidate], *, newest: int | None = None) -> list[Choice]:
    """What to do with each of `candidates`, which come in the order of commitment: the newest first.

    The newest is the one that a lost run directory would be missed for, and it stays longest. `newest`: only the last
    so many live ones are sent; what is published of older ones stays there.
    """
    if newest is not None and newest < 1:
        raise ValueError(f"the newest {newest} checkpoints: at least 1 has to be published")
    choices: list[Choice] = []
    live = 0
    for each in reversed(candidates):
        live += each.live
        if each.published:
            choices.append(Skip(each.checkpoint, "published already"))
        elif not each.live:
            choices.append(Skip(each.checkpoint, "not live any more"))
        elif newest is not None and live > newest:
            choices.append(Skip(each.checkpoint, f"not among the newest {newest}"))
        else:
            choices.append(Send(each.checkpoint))
    return choices
