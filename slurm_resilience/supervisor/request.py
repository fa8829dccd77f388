"""What the user asked srun-resilient for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.launch.srun_options import SrunLine
from slurm_resilience.launch.training_command import TrainingCommand
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.signals.ladder import Asked


@dataclass(frozen=True, slots=True)
class Publishing:
    """A third place for every durable checkpoint, as the user said it."""

    to: str
    """`{run}`, `{run_id}` and `$NAME` are still to be filled in."""
    limit: str | None


class ContinueBy(enum.Enum):
    """How a batch job's run goes on after it."""

    REQUEUE = "requeue"  # the same job again, by Slurm, about two minutes later
    CHAIN = "chain"  # a successor that is queued from the beginning and starts when this job is over


class Dependency(enum.Enum):
    """What a successor waits for."""

    AFTERANY = "afterany"  # this job's end
    SINGLETON = "singleton"  # the end of every job of this name and user: for sites that count so


class OnPreflight(enum.Enum):
    """What is done about a failed preflight."""

    EXCLUDE = "exclude"  # go on without a node that fails; start nothing where no other node would help
    STOP = "stop"  # start nothing
    WARN = "warn"  # say it, and start


@dataclass(frozen=True, slots=True)
class Preflighting:
    """A look at the job's nodes before every attempt's step."""

    wish: OnPreflight
    time_limit_s: float
    skip: tuple[str, ...] = ()
    """Checks to do without."""


@dataclass(frozen=True, slots=True)
class Request:
    srun: SrunLine
    command: TrainingCommand
    words: tuple[str, ...]
    """The command as the user typed it: it tells one run's training from another's."""
    run_dir: Path | None
    nproc_per_node: str | None
    local_addr: str | None
    interface: str | None
    forward_signal: str | None
    limits: Limits
    asked: Asked
    mode: str
    """auto, slurm or local."""
    take_over: bool
    dry_run: bool
    requeue: bool
    """False: never ask Slurm to queue the job again."""
    publish: Publishing | None = None
    continue_by: ContinueBy = ContinueBy.REQUEUE
    dependency: Dependency = Dependency.AFTERANY
    """Of a successor; chain mode alone."""
    preflight: Preflighting | None = None
    continue_said: str = "--continue=chain"
    """Whose word `continue_by` is, for a sentence about it."""
