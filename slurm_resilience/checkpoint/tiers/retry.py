"""Trying again what a place has refused for now: a few times, longer and longer apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from slurm_resilience.clock import Clock
from slurm_resilience.errors import CheckpointUnavailable

TRIES = 6
_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0

_Result = TypeVar("_Result")


def pauses_s(tries: int) -> Iterator[float]:
    """Between `tries` tries; up to a half shorter by chance, so that a thousand ranks don't come back together."""
    for number in range(tries - 1):
        yield min(_FIRST_PAUSE_S * 2**number, _MOST_PAUSE_S) * random.uniform(0.5, 1.0)


def persistently(
    action: Callable[[], _Result],
    *,
    clock: Clock,
    check: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
    tries: int = TRIES,
) -> _Result:
    """What `action` returns, tried again for CheckpointUnavailable only. `check` is called after each pause."""
    for pause_s in pauses_s(tries):
        try:
            return action()
        except CheckpointUnavailable as error:
            say(f"{error}; trying again in {pause_s:.0f} s")
        clock.sleep(pause_s)
        check()
    return action()
