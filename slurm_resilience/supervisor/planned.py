"""What an attempt was to be, as its plan tells: for whoever concludes it in the place of its supervisor."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.end_of_time import read_end_of_time
from slurm_resilience.launch.plan import Plan, read_plan
from slurm_resilience.manifest.chain import Attempt
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.supervisor.request import Dependency


@dataclass(frozen=True, slots=True)
class Planned:
    limits: Limits = field(default_factory=Limits)
    tasks: int = 0
    """How many node agents there were to be; 0: not known."""
    end_s: float | None = None
    """When the job's time is over, seconds since the epoch; None: no limit known."""
    chain: bool = False
    dependency: Dependency = Dependency.AFTERANY


def what_was_planned(run: RunDirectory, attempt: Attempt) -> Planned:
    """What is not known any more where it died before it had a plan: only that a successor was to follow."""
    try:
        plan = read_plan(run.plan(attempt.number))
    except ConfigurationError:
        return Planned(chain=attempt.successor_token is not None)
    end_s = planned_end_s(run, attempt.number, plan)
    return Planned(plan.limits, plan.tasks, end_s, plan.chain, Dependency(plan.chain_dependency))


def planned_end_s(run: RunDirectory, attempt: int, plan: Plan) -> float | None:
    """The end of the job's time: the limit may have been changed since the plan was made."""
    try:
        return read_end_of_time(run.end_of_time(attempt).read_bytes()).end_s
    except (OSError, ValueError, KeyError, TypeError):
        return plan.end_s
