"""Where the ranks of all nodes meet: the first node's agent settles it, the others wait for its word."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from slurm_resilience.agent.doorbell import BLOCKED_AT_START
from slurm_resilience.agent.place import Place
from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError
from slurm_resilience.launch.plan import CommandKind, Plan
from slurm_resilience.launch.rendezvous import await_settled, settle
from slurm_resilience.manifest.run_directory import RunDirectory

PATIENCE_S = 300.0
"""srun may need minutes to start a large step; a first node that never says a word has failed."""


def asked_to_stop() -> bool:
    """Whether a signal waits for us: every one of them is blocked until the command runs."""
    return bool(signal.sigpending() & BLOCKED_AT_START - {signal.SIGCONT})


def met(plan: Plan, here: Place) -> Plan | None:
    """The plan with its rendezvous; None: a signal came while we waited.

    Raises ConfigurationError where the first node has no free port, or doesn't say a word.
    """
    if plan.kind is not CommandKind.TORCHRUN or plan.nodes == 1 or plan.rendezvous is not None:
        return plan
    run_path = RunDirectory(Path(plan.run)).rendezvous(plan.attempt)
    identity = f"{plan.run_id}.{plan.attempt}"
    if here.node_id == 0:
        job = [os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")]
        preferred = (plan.local_addr, os.environ.get("SLURMD_NODENAME"))
        return replace(plan, rendezvous=settle(run_path, key=".".join(job), identity=identity, preferred=preferred))
    settled = await_settled(
        run_path, identity=identity, timeout_s=PATIENCE_S, clock=SystemClock(), give_up=asked_to_stop
    )
    if settled is None and not asked_to_stop():
        raise ConfigurationError(f"the first node's agent did not say within {PATIENCE_S:g} s where the ranks meet")
    return None if settled is None else replace(plan, rendezvous=settled)
