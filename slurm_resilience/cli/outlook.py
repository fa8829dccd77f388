"""What happens next with a run, and which command helps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.lease import Owner
from slurm_resilience.process_identity import Liveness


@dataclass(frozen=True, slots=True)
class Holder:
    owner: Owner
    liveness: Liveness


@dataclass(frozen=True, slots=True)
class Outlook:
    sentence: str
    command: str | None = None


def outlook(run: Path, chain: Chain, holder: Holder | None) -> Outlook:
    """`holder` None: the run is free."""
    newest = chain.newest_attempt
    resume = f"slurm-resilience resume {run}"
    if holder is not None and holder.liveness is Liveness.ALIVE:
        return Outlook(f"attempt {holder.owner.attempt} is running", f"slurm-resilience stop {run}")
    if holder is not None and holder.liveness is Liveness.UNKNOWN:
        owner = holder.owner
        look = f"scontrol show job {owner.job}" if owner.job else f"ssh {owner.host} ps -p {owner.pid}"
        return Outlook(f"whether attempt {owner.attempt} is alive can't be told from here", look)
    if chain.finished:
        return Outlook("the run is finished; it is never started again")
    if newest is None:
        return Outlook("no attempt has started yet")
    if newest.ended is None:
        return Outlook(f"attempt {newest.number} died without a word: nobody has told its end", resume)
    return _after(newest, resume, since=f"step {chain.next_step}" if chain.loadable() else "the beginning")


def _after(newest: Attempt, resume: str, *, since: str) -> Outlook:
    assert newest.ended is not None
    decision, job = newest.ended.decision, newest.started.job
    if decision in ("requeue", "restart") and newest.carried_out is None:
        return Outlook(f"it was decided to {decision}, and nothing shows that it was done", resume)
    if decision in ("requeue", "leave"):
        look = None if job is None else f"squeue -j {job}"
        return Outlook(f"the job is queued again and goes on from {since}", look)
    if decision == "restart":
        return Outlook(f"the supervisor starts the next attempt, from {since}")
    return Outlook(f"the run does not go on by itself; submit its batch script again to go on from {since}")
