"""When a periodic save is due. Pure: the time comes in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from slurm_resilience.checkpoint.interval import (
    LEAST_S,
    MOST_S,
    NODE_MTBF_S,
    Interval,
    best_interval,
    mean_time_between_failures_s,
    next_save,
)
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import Cause

RETRY_AFTER_S = 60.0
"""How soon a save that failed twice is tried again, where the next periodic one is further off."""

MOVED_S = 1.0
"""An end that moves by less has not moved: two clocks are read to know it."""

_NEWEST_WEIGHT = 0.5
"""Of the newest save among all that were measured: the first ones, into cold memory, are soon outweighed."""

ANNOUNCED = frozenset(
    {
        Cause.FINISHED,
        Cause.PREEMPTED,
        Cause.TIME_LIMIT,
        Cause.WARNED,
        Cause.REQUEUED_BY_HAND,
        Cause.CANCELLED,
        Cause.CANCELLED_BY_ADMIN,
        Cause.OPERATOR_STOP,
        Cause.LAUNCH_FAILED,
        Cause.NEVER_STARTED,
        Cause.DEPENDENCY_NEVER,
        Cause.PREFLIGHT,
    }
)
"""Ends that come with a warning and are saved for, or before there was anything to lose.

An interval between saves has nothing to do with them."""


@dataclass(frozen=True, slots=True)
class Experience:
    """What a run has been through so far."""

    failures: int
    """Ends that nobody announced: of a node, of memory, of the program, or that nobody can explain."""
    observed_s: float
    cost_s: float | None
    """What a save cost the training, in the middle (median) of those measured. None: none was."""

    @classmethod
    def of(cls, chain: Chain) -> Experience:
        """Of the attempts before the newest, which is the one that asks."""
        before = chain.attempts[:-1]
        last_seen_s = {attempt.number: attempt.started_s for attempt in before}
        for checkpoint in chain.checkpoints:
            number = checkpoint.committed.attempt
            if number in last_seen_s:
                last_seen_s[number] = max(last_seen_s[number], checkpoint.time_s)
        observed_s = sum(
            max(0.0, (last_seen_s[each.number] if each.ended_s is None else each.ended_s) - each.started_s)
            for each in before
        )
        costs_s = sorted(each.committed.stall_s for each in chain.checkpoints if each.committed.stall_s is not None)
        cost_s = costs_s[len(costs_s) // 2] if costs_s else None
        return cls(sum(map(_is_failure, before)), observed_s, cost_s)


def _is_failure(attempt: Attempt) -> bool:
    if attempt.ended is not None:
        return attempt.ended.cause not in ANNOUNCED
    # An end that nobody told, too. Of a bare attempt nobody ever tells it: there the training's own word has to do.
    return attempt.stop_asked is None and attempt.finished_step is None


@dataclass(frozen=True, slots=True)
class AutoInterval:
    """`save_every_minutes="auto"`: what the best interval is worked out from."""

    mtbf_s: float
    least_s: float = LEAST_S
    most_s: float = MOST_S
    cost_s: float | None = None

    @classmethod
    def after(
        cls,
        experience: Experience,
        *,
        nodes: int,
        node_mtbf_s: float = NODE_MTBF_S,
        least_s: float = LEAST_S,
        most_s: float = MOST_S,
    ) -> AutoInterval:
        """Raises ValueError for values that can't be meant."""
        mtbf_s = mean_time_between_failures_s(
            nodes=nodes, failures=experience.failures, observed_s=experience.observed_s, node_mtbf_s=node_mtbf_s
        )
        auto = cls(mtbf_s, least_s, most_s, experience.cost_s)
        auto.interval()
        return auto

    def interval(self) -> Interval:
        return best_interval(self.cost_s, self.mtbf_s, least_s=self.least_s, most_s=self.most_s)

    def measured(self, cost_s: float) -> AutoInterval:
        """A save has cost so much. A measurement below zero is noise around nothing."""
        cost_s = max(0.0, cost_s)
        if self.cost_s is None:
            return replace(self, cost_s=cost_s)
        return replace(self, cost_s=(1 - _NEWEST_WEIGHT) * self.cost_s + _NEWEST_WEIGHT * cost_s)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The safety net of `interval.next_save`, for rank 0's clock."""

    end_s: float
    """When Slurm ends the job, on the clock that the times below are read from."""
    margin_s: float = 30.0
    """Between the save and the end: Slurm is coarse."""


def _has_moved(known: TimeLimit | None, told: TimeLimit | None) -> bool:
    if known is None or told is None:
        return known is not told
    return abs(known.end_s - told.end_s) >= MOVED_S


@dataclass(frozen=True, slots=True)
class SaveRhythm:
    """By minutes on rank 0's clock, by steps on everybody's, or both. With `auto`, `every_s` doesn't count."""

    every_s: float | None
    every_steps: int | None
    due_s: float = math.inf
    auto: AutoInterval | None = None
    limit: TimeLimit | None = None
    saving_s: float = 0.0
    """How long the last save took until it was durable."""
    why: str = ""
    """Of `due_s`, for whoever wonders."""
    since_s: float = 0.0
    """From when the interval counts."""

    def started(self, now_s: float) -> SaveRhythm:
        interval = self._interval()
        if interval is None:
            return replace(self, due_s=math.inf, since_s=now_s)
        end_s, margin_s = (math.inf, 0.0) if self.limit is None else (self.limit.end_s, self.limit.margin_s)
        following = next_save(now_s, interval, end_s=end_s, saving_s=self.saving_s, margin_s=margin_s)
        return replace(self, due_s=following.due_s, why=following.why, since_s=now_s)

    def bounded(self, limit: TimeLimit | None) -> SaveRhythm:
        """With the end of the time as it is now: what is due moves with it, if it has moved."""
        if not _has_moved(self.limit, limit):
            return self
        moved = replace(self, limit=limit).started(self.since_s)
        retry_pending = self.due_s < self._undisturbed().due_s  # a failed save is not put off by more time
        return replace(moved, due_s=min(moved.due_s, self.due_s)) if retry_pending else moved

    def _undisturbed(self) -> SaveRhythm:
        return self.started(self.since_s)

    def saved(self, now_s: float, *, cost_s: float | None = None, saving_s: float | None = None) -> SaveRhythm:
        """`cost_s`: what the save cost the training, stall and slow-down; `saving_s`: how long until it was durable."""
        known = self
        if cost_s is not None and self.auto is not None:
            known = replace(known, auto=self.auto.measured(cost_s))
        if saving_s is not None:
            known = replace(known, saving_s=max(0.0, saving_s))
        return known.started(now_s)

    def failed(self, now_s: float) -> SaveRhythm:
        following = self.started(now_s)
        return replace(following, due_s=min(following.due_s, now_s + RETRY_AFTER_S))

    def due_by_time(self, now_s: float) -> bool:
        return now_s >= self.due_s

    def due_by_steps(self, step: int) -> bool:
        """The same on every rank, as long as all are at the same step."""
        return self.every_steps is not None and step > 0 and step % self.every_steps == 0

    def _interval(self) -> Interval | None:
        if self.auto is not None:
            return self.auto.interval()
        return None if self.every_s is None else Interval(self.every_s, f"every {self.every_s:g} s, as asked for")
