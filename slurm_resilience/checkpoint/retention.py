"""Which checkpoints a run can do without. Pure: the caller records and deletes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MetricMode = Literal["min", "max"]


@dataclass(frozen=True, slots=True)
class Live:
    """What must be known of a live checkpoint: committed, not forgotten, not damaged."""

    checkpoint: str
    step: int
    metric: float | None = None
    verified: bool = False
    """Whether every byte of it was read once, and was what was written."""
    pinned: str | None = None
    """Why a person wants it kept."""


@dataclass(frozen=True, slots=True)
class Policy:
    keep_last: int
    """So many of those committed last. At least 1: a run always has something to go back to."""
    keep_every: int | None = None
    """The first at or after every multiple of so many steps: saves need not fall on multiples."""
    keep_best: int = 0
    """So many of those with the best metric. One without a metric, or with NaN, is never among them."""
    metric_mode: MetricMode = "min"
    """Whether the least metric is the best, or the greatest."""

    def __post_init__(self) -> None:
        if self.keep_last < 1:
            raise ValueError(f"keep_last is {self.keep_last}: at least 1 checkpoint has to be kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise ValueError(f"keep_every is {self.keep_every}: a distance between steps is at least 1")
        if self.keep_best < 0:
            raise ValueError(f"keep_best is {self.keep_best}: at least 0")
        if self.metric_mode not in ("min", "max"):
            raise ValueError(f"metric_mode is {self.metric_mode!r}: it is min or max")


@dataclass(frozen=True, slots=True)
class Keep:
    checkpoint: str
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    checkpoint: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Every live checkpoint is in one of them, in the order of commitment, oldest first."""

    keep: tuple[Keep, ...]
    forget: tuple[Forget, ...]


def plan_retention(live: Sequence[Live], policy: Policy) -> Plan:
    """What to keep and what to forget of `live`, which is in the order of commitment, oldest first.

    Kept are what the policy asks for and, whatever it asks for: the newest, the one that a resume would load (the
    highest step: somebody may be reading it at this moment), the last that was verified, and all that are pinned. Why a
    checkpoint was saved doesn't matter: one from a stop is kept like any other.
    """
    reasons: dict[str, list[str]] = {each.checkpoint: [] for each in live}
    for checkpoint, why in [*_always(live), *_wanted(live, policy)]:
        reasons[checkpoint].append(why)
    return Plan(
        tuple(Keep(checkpoint, ", ".join(why)) for checkpoint, why in reasons.items() if why),
        tuple(Forget(checkpoint, _why_not(policy)) for checkpoint, why in reasons.items() if not why),
    )


def _always(live: Sequence[Live]) -> list[tuple[str, str]]:
    if not live:
        return []
    _, loads = max(enumerate(live), key=lambda numbered: (numbered[1].step, numbered[0]))
    verified = [each for each in live if each.verified]
    return [
        (live[-1].checkpoint, "the newest"),
        (loads.checkpoint, "a resume loads it"),
        *((each.checkpoint, "the last that was verified") for each in verified[-1:]),
        *((each.checkpoint, f"pinned: {each.pinned}") for each in live if each.pinned is not None),
    ]


def _wanted(live: Sequence[Live], policy: Policy) -> list[tuple[str, str]]:
    """Not the highest steps count as the last: a run that walked back commits lower steps later: its present."""
    wanted = [(each.checkpoint, f"one of the last {policy.keep_last}") for each in live[-policy.keep_last :]]
    for place, each in enumerate(_best(live, policy), 1):
        wanted.append((each.checkpoint, f"number {place} of the best (metric {each.metric:.6g})"))
    if policy.keep_every is not None:
        for multiple, each in _milestones(live, policy.keep_every).items():
            wanted.append((each.checkpoint, f"the first from step {multiple * policy.keep_every} on"))
    return wanted


def _best(live: Sequence[Live], policy: Policy) -> list[Live]:
    sign = 1 if policy.metric_mode == "min" else -1
    known = [
        (sign * each.metric, -number, each)
        for number, each in enumerate(live)
        if each.metric is not None and not math.isnan(each.metric)
    ]
    return [each for _, _, each in sorted(known, key=lambda one: one[:2])][: policy.keep_best]  # of equals the later


def _milestones(live: Sequence[Live], keep_every: int) -> dict[int, Live]:
    first: dict[int, Live] = {}
    for each in live:
        multiple = each.step // keep_every
        # Of two at one step the later stays: a run that walked back has made it anew.
        if multiple > 0 and (multiple not in first or each.step <= first[multiple].step):
            first[multiple] = each
    return first


def _why_not(policy: Policy) -> str:
    asked = ["the last one" if policy.keep_last == 1 else f"the last {policy.keep_last}"]
    if policy.keep_best:
        asked.append("the best one" if policy.keep_best == 1 else f"the best {policy.keep_best}")
    if policy.keep_every is not None:
        asked.append(f"one every {policy.keep_every} steps")
    verb = "is" if policy.keep_last == 1 and len(asked) == 1 else "are"
    text = asked[0] if len(asked) == 1 else f"{', '.join(asked[:-1])} and {asked[-1]}"
    return f"only {text} {verb} kept"
