"""What happens next with a run, and which command helps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.lease import Owner
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import WITHDRAWN
from slurm_resilience.requeue.held import Held
from slurm_resilience.slurm.client import JobState


@dataclass(frozen=True, slots=True)
class Holder:
    owner: Owner
    liveness: Liveness


@dataclass(frozen=True, slots=True)
class Outlook:
    sentence: str
    command: str | None = None
    by_hand: bool = False
    """It was started without srun-resilient: only who started it starts it again."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """What Slurm says of the job that is to go on."""

    job: str
    state: str | None
    """In Slurm's word; None: it didn't say."""
    said: str
    """A sentence."""
    held: Held | None = None


def outlook(run: Path, chain: Chain, holder: Holder | None) -> Outlook:
    """`holder` None: the run is free."""
    newest = chain.newest_attempt
    resume = f"slurm-resilience resume {run}"
    if holder is not None and holder.liveness is Liveness.ALIVE:
        if is_bare(chain):
            owner = holder.owner
            where = f"process {owner.pid} on {owner.host} is its first rank"
            return Outlook(f"attempt {owner.attempt} is running, without srun-resilient; {where}", signal_for(owner))
        return Outlook(f"attempt {holder.owner.attempt} is running", f"slurm-resilience stop {run}")
    if holder is not None and holder.liveness is Liveness.UNKNOWN:
        owner = holder.owner
        look = f"scontrol show job {owner.job}" if owner.job else f"ssh {owner.host} ps -p {owner.pid}"
        return Outlook(f"whether attempt {owner.attempt} is alive can't be told from here", look)
    if chain.finished:
        return Outlook("the run is finished; it is never started again")
    if newest is None:
        return Outlook("no attempt has started yet")
    if newest.ended is None and is_bare(chain):
        how = "is over" if newest.stop_asked is None else f"has stopped ({newest.stop_asked.because})"
        since = f"step {chain.next_step}" if chain.loadable() else "the beginning"
        return Outlook(
            f"attempt {newest.number} was started without srun-resilient and {how}: started again in the same way, it "
            f"goes on from {since}",
            by_hand=True,
        )
    if newest.ended is None:
        return Outlook(f"attempt {newest.number} died without a word: nobody has told its end", resume)
    return _after(newest, resume, since=f"step {chain.next_step}" if chain.loadable() else "the beginning")


def is_bare(chain: Chain) -> bool:
    """Whether the newest attempt has no supervisor: plain python or torchrun."""
    return chain.newest_attempt is not None and chain.newest_attempt.started.mode == "bare"


def signal_for(owner: Owner) -> str:
    """What makes all ranks of a bare attempt save and stop: one of them that hears it is enough."""
    return f"kill -USR1 {owner.pid}"


def waiting_job(chain: Chain, holder: Holder | None) -> str | None:
    """The job that Slurm is to go on with: the one to ask it about. None: none is queued, as far as the journal knows.

    What died without a word may have been queued again by Slurm itself.
    """
    newest = chain.newest_attempt
    if newest is None or chain.finished:
        return None
    if holder is not None and holder.liveness is Liveness.ALIVE:
        return newest.successor
    if newest.ended is None:
        return newest.successor or newest.started.job
    match newest.ended.decision:
        case "successor":
            return newest.successor
        case "requeue" | "leave" | "hold":
            return newest.started.job
        case _:
            return None


def considering(next_: Outlook, run: Path, queued: QueuedJob | None) -> Outlook:
    """`next_`, in the light of what Slurm says of the job that is to go on."""
    if queued is None or queued.state is None:
        return next_
    if queued.held is not None and queued.held.for_ever:
        return Outlook(
            f"job {queued.job} is queued and never starts by itself: {queued.held.sentence}", queued.held.command
        )
    if queued.state in _OVER and not next_.by_hand:
        over = f"job {queued.job} was to go on with the run and is over: {queued.state}"
        return Outlook(over, f"slurm-resilience resume {run}")
    return next_


def _after(newest: Attempt, resume: str, *, since: str) -> Outlook:
    assert newest.ended is not None
    decision, job, done = newest.ended.decision, newest.started.job, newest.carried_out
    if decision in ("requeue", "restart", "successor", "hold") and done is None:
        return Outlook(
            f"it was decided to {_VERBS.get(decision, decision)}, and nothing shows that it was done", resume
        )
    if done is not None and done.how.startswith(WITHDRAWN):
        return Outlook(f"the run does not go on by itself: {done.how.removeprefix(WITHDRAWN)}", f"{resume} --anyway")
    if decision in ("requeue", "leave"):
        look = None if job is None else f"squeue -j {job}"
        return Outlook(f"the job is queued again and goes on from {since}", look)
    if decision == "successor":
        look = None if newest.successor is None else f"squeue -j {newest.successor}"
        return Outlook(f"the successor's job goes on from {since}", look)
    if decision == "restart":
        return Outlook(f"the supervisor starts the next attempt, from {since}")
    if decision == "hold" and done is not None:
        sentence = f"the run does not go on by itself, and Slurm is kept from starting its job ({done.how})"
        return Outlook(f"{sentence}; to go on from {since}, release or submit it", f"{resume} --anyway")
    return Outlook(f"the run does not go on by itself; submit its batch script again to go on from {since}")


_OVER = frozenset(state.value for state in JobState) - {"PENDING", "RUNNING", "SUSPENDED", "UNKNOWN"}
_VERBS = {"successor": "leave it to a successor", "hold": "hold the job that Slurm has queued"}
