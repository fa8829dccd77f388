"""When the supervisor is dead, one agent has its work finished: the attempt journalled, the job requeued."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from slurm_resilience import command
from slurm_resilience.agent.child import SHIELDED
from slurm_resilience.agent.log import Log
from slurm_resilience.errors import CommandError
from slurm_resilience.launch.plan import Plan
from slurm_resilience.process_identity import Identity, Liveness, liveness


def is_needed(plan: Plan, slot: int) -> bool:
    """Whether this agent is the one, and the supervisor provably gone. On another host nobody can prove it."""
    if not plan.can_requeue or slot != 0:
        return False
    supervisor = Identity(
        plan.supervisor_host,
        plan.supervisor_boot_id,
        plan.supervisor_pid,
        plan.supervisor_started_ticks,
        plan.supervisor_pid_namespace,
    )
    return liveness(supervisor) is Liveness.GONE


def send(plan: Plan, attempt: Path, log: Log, *, seconds: float) -> None:
    """Run the deputy to its end, with its words in `deputy.log` of the attempt's folder."""
    log.say("the supervisor is dead: its deputy ends the attempt")
    argv = [plan.python, "-m", "slurm_resilience.supervisor.deputy", plan.run, str(plan.attempt)]
    # Slurm's next SIGTERM goes to every process of the step: this one has to live through it, too.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SHIELDED)
    try:
        done = command.run(argv, timeout_s=seconds)
        said = f"{done.out}{done.err}left with {done.code}\n"
        log.say(f"the deputy left with {done.code}" + (f": {done.complaint}" if done.code else ""))
    except CommandError as error:
        said = f"{error}\n"
        log.say(f"the deputy failed: {error}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with contextlib.suppress(OSError), (attempt / "deputy.log").open("a", encoding="utf-8") as file:
        file.write(said)
