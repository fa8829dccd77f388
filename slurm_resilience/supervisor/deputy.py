"""`python -m slurm_resilience.supervisor.deputy RUN ATTEMPT`: finish the work of a supervisor that was killed.

Run by the first node's agent once everything of the attempt has ended and the supervisor's process is proven gone.
Slurm takes the job down meanwhile (its batch script is dead), so there is KillWait and no more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ResilienceError
from slurm_resilience.launch.plan import Plan, read_plan
from slurm_resilience.manifest.attempt import release
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.decision import Way
from slurm_resilience.slurm.command_line import CommandLineSlurm
from slurm_resilience.supervisor.ending import Ending, Seen
from slurm_resilience.supervisor.planned import planned_end_s
from slurm_resilience.supervisor.request import Dependency
from slurm_resilience.supervisor.succession import Succession
from slurm_resilience.supervisor.voice import say

PATIENCE_S = 20.0


def finish(run: RunDirectory, attempt: int) -> int:
    """Write the end of `attempt` and carry it out, unless somebody has."""
    plan = read_plan(run.plan(attempt))
    clock = SystemClock()
    journal = Journal(run, clock=clock)
    slurm = CommandLineSlurm(environment=os.environ, timeout_s=10.0)
    ending = Ending(
        run,
        journal,
        slurm,
        clock,
        plan.limits,
        lambda _: _way(plan),
        say,
        clock.monotonic_s() + PATIENCE_S,
        Succession(journal, slurm, os.environ, Dependency(plan.chain_dependency)) if plan.chain else None,
    )
    conclusion = ending.conclude(attempt, Seen(None, (), True, plan.tasks, planned_end_s(run, attempt, plan)))
    release(run, attempt, journal=journal)
    say(f"the supervisor of attempt {attempt} was killed; {conclusion.because}: {conclusion.decision.reason}")
    return 0 if conclusion.carried_out else 1


def _way(plan: Plan) -> Way:
    if not plan.can_requeue:
        return Way.NONE
    return Way.CHAIN if plan.chain else Way.REQUEUE


def main(words: Sequence[str]) -> int:
    try:
        return finish(RunDirectory(Path(words[0])), int(words[1]))
    except ResilienceError as error:
        say(str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
