"""Runs as their manifests tell them, written by hand."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.lease import this_process, write_lease
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    Part,
    Record,
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory


class CountingClock:
    """A minute passes with every look."""

    def __init__(self) -> None:
        self.time_s = 1_700_000_000.0

    def now_s(self) -> float:
        self.time_s += 60
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


def tell(path: Path, *records: Record) -> RunDirectory:
    run = RunDirectory(path)
    journal = Journal(run, clock=CountingClock())
    journal.create("night shift")
    for record in records:
        journal.append(record)
    return run


def started(attempt: int, *, job: str | None = "100") -> AttemptStarted:
    return AttemptStarted(
        attempt, "batch", ("torchrun", "train.py"), "node1", job, (attempt - 1) or None, "c1", "node1"
    )


def saved(step: int, attempt: int, *, world_size: int = 2) -> CheckpointCommitted:
    name = checkpoint_id(step, attempt)
    parts = tuple(
        Part(rank, f"checkpoints/{name}/rank-{rank:05d}.h5", 1_500_000, f"xxh3-128:{rank:032x}")
        for rank in range(world_size)
    )
    return CheckpointCommitted(name, step, attempt, SaveReason.PERIODIC, world_size, parts, 2.5)


def resumed(attempt: int, step: int, from_attempt: int = 1) -> AttemptResumed:
    return AttemptResumed(attempt, checkpoint_id(step, from_attempt) if step else None, step, 2)


def ended(
    attempt: int, decision: str = "requeue", cause: Cause = Cause.PREEMPTED, *, step: int | None = None
) -> AttemptEnded:
    return AttemptEnded(attempt, cause, "SIGTERM came", ("evidence",), decision, "somebody's turn", 75, step)


def own(run: RunDirectory, attempt: int, **changes: object) -> None:
    """This very process holds the run, or what `changes` make of it."""
    owner = this_process(attempt=attempt, job="100", restart_count=None, cluster="c1", taken_s=1.0)
    values = {name: getattr(owner, name) for name in owner.__slots__}
    write_lease(run, type(owner)(**values | changes))


ELSEWHERE = {"host": "node17", "job": None}
DEAD = {"started_ticks": 1}
