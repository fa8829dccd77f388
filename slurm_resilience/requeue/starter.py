"""Who started a job after an attempt, as far as the journal can tell. Pure.

| the job after the attempt                          | started by |
|----------------------------------------------------|------------|
| any, after `resume --anyway`                       | a person   |
| none: outside Slurm                                | a person   |
| another job, not the attempt's successor           | a person   |
| its successor, for the first time                  | Slurm      |
| its successor, requeued                            | a person: Slurm may not requeue it |
| the same life of the same job (a shell in it)      | a person   |
| the next life, after it was held (`hold`, done)    | a person: only they release it |
| the next life, after it should have been held      | Slurm      |
| the next life, after a stop                        | either: `scontrol requeue`, or Slurm after our last look |
| the next life, after any other decision            | Slurm      |
"""

from __future__ import annotations

import enum

from slurm_resilience.manifest.chain import Attempt


class Starter(enum.Enum):
    PERSON = "a person"
    SLURM = "Slurm"
    EITHER = "a person or Slurm"  # nothing in the journal tells the two apart


def was_stopped(attempt: Attempt) -> bool:
    """Whether it was decided at its end that the run does not go on by itself."""
    return attempt.ended is not None and attempt.ended.decision in ("stop", "hold")


def who_started(before: Attempt, job: str | None, restart_count: int | None) -> Starter:
    """Who started life `restart_count` of `job`, the first to come after attempt `before`."""
    if before.go_on_asked is not None:
        return Starter.PERSON
    restarts, restarts_before = restart_count or 0, before.started.restart_count or 0
    if job is None or before.started.job is None:
        return Starter.PERSON
    if job == before.successor:
        return Starter.PERSON if restarts else Starter.SLURM
    if job != before.started.job or restarts <= restarts_before:
        return Starter.PERSON
    match before.ended.decision if before.ended is not None else None:
        case "hold":
            return Starter.PERSON if before.carried_out is not None else Starter.SLURM
        case "stop":
            return Starter.EITHER
        case _:
            return Starter.SLURM
