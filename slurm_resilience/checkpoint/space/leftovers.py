"""What dead attempts have left in the folder of checkpoints. Pure: a listing is held against the manifest's word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

_OF_ATTEMPT = re.compile(r"step-[0-9]{10,}\.a([0-9]+)(\.final)?")


@dataclass(frozen=True, slots=True)
class Found:
    """A folder below `RUN/checkpoints`."""

    checkpoint: str
    bytes: int


def leftovers(found: Iterable[Found], *, named: AbstractSet[str], attempt: int) -> list[Found]:
    """The folders that no manifest line will ever name.

    `named`: the checkpoints that are committed and not forgotten. What an attempt before `attempt`, the one that owns
    the run, has written without naming it can't be named any more: its commits are fenced. The present attempt's
    folders may be a save in progress, a newer one's are not ours to judge, and what isn't called like a checkpoint
    isn't ours.
    """
    old = []
    for each in found:
        match = _OF_ATTEMPT.fullmatch(each.checkpoint)
        if match is not None and int(match[1]) < attempt and each.checkpoint not in named:
            old.append(each)
    return old
