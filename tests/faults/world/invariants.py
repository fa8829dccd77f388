"""What must be true whatever was done: docs/design.md, one function a law."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_resilience.cli.budget import budgets_of
from slurm_resilience.cli.outlook import outlook
from slurm_resilience.cli.status import Told, _as_json
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    AttemptStarted,
    Cause,
    CheckpointCommitted,
    CheckpointQuarantined,
    DecisionCarriedOut,
    Line,
)
from slurm_resilience.requeue.successor import token_of
from slurm_resilience.slurm.client import JobRecord, JobState
from tests.faults.world.clock import Process
from tests.faults.world.cluster import Life, Requeued
from tests.faults.world.training import STEPS, Training
from tests.slurm.light_training import value_after

if TYPE_CHECKING:
    from tests.faults.world.world import World

KNOWN_FOR_S = 40.0
"""As long as Slurm's word on a job holds good: there is no requeue-if-unchanged, and two answers may take this long."""


@dataclass
class Truth:
    """What was really done, whatever the journal says."""

    cancel_s: float | None = None
    """When a person ended the run, and has not started it again since."""
    cancellations: dict[tuple[str, int], float] = field(default_factory=dict)
    ever_cancelled: bool = False
    operator_s: float | None = None
    all_dead: list[str] = field(default_factory=list)
    """Lives of jobs of which everything was killed at once."""

    def cancelled(self, job: str, restarts: int, now_s: float) -> None:
        self.cancel_s, self.ever_cancelled = now_s, True
        self.cancellations[job, restarts] = now_s

    def person_wants_it(self, now_s: float) -> None:
        self.cancel_s = None


def check_a_requeue(world: World, requeued: Requeued) -> None:
    """A requeue of ours is of the life that it was decided about, is written down before, and never of a cancelled
    job."""
    process = requeued.by
    if process is None:
        return
    who = f"{process.name} requeues job {requeued.job}#{requeued.restarts}"
    world.tell(who)
    chain = world.chain()
    assert chain is not None
    world.counts["requeues of ours"] += 1
    attempt = _attempt_of(world, process, chain)
    assert attempt is not None
    started = attempt.started
    stale = (started.job, started.restart_count or 0) != (requeued.job, requeued.restarts)
    if stale and (requeued.life is not None or process.name != "anyway"):
        world.violate(f"{who}, a life that is not attempt {attempt.number}'s")
    if process.name == "anyway":
        return
    if attempt.ended is None or attempt.ended.decision not in ("requeue", "successor"):
        world.violate(f"{who} before that decision is written down")
    cancelled_s = world.truth.cancellations.get((requeued.job, requeued.restarts))
    if cancelled_s is None:
        return
    look_s = process.last_look_s
    if look_s is None or look_s >= cancelled_s or world.time.now_s - look_s > KNOWN_FOR_S:
        world.violate(f"{who}, which somebody has cancelled {world.time.now_s - cancelled_s:.1f} s before")
    world.counts["a cancellation just before our requeue"] += 1
    world.truth.cancel_s = None


def check_a_cancellation(world: World, process: Process, record: JobRecord) -> None:
    """We cancel what waits, once that is decided, and one successor of two."""
    world.tell(f"{process.name} cancels job {record.job}, which is {record.state.value}")
    world.counts["cancellations of ours"] += 1
    chain = world.chain()
    assert chain is not None
    if record.state is JobState.RUNNING and not record.completing:
        world.violate(f"{process.name} cancels job {record.job}, which runs")
    attempt = _attempt_of(world, process, chain)
    assert attempt is not None
    waiting = [each for each in world.waiting() if each.job != record.job]
    if attempt.ended is None and not chain.finished and not waiting:
        world.violate(f"{process.name} cancels job {record.job} before anything is decided")


def _attempt_of(world: World, process: Process, chain: Chain) -> Attempt | None:
    for life in world.lives:
        if process in life.processes and life.attempt is not None:
            found = chain.attempt(life.attempt)
            assert found is not None
            return found
    return chain.newest_attempt


def check_who_trains(world: World, life: Life, training: Training) -> None:
    """One attempt trains, from the newest checkpoint, and somebody wants it to."""
    world.counts["attempts that trained"] += 1
    lines = world.lines()
    chain = Chain.of(lines)
    number = training.attempt
    others = [
        other.attempt
        for its, other in world.trainings
        if other is not training and other.lives and not its.ghost and not its.over
    ]
    if others and not life.ghost:
        world.violate(f"attempts {others} and {number} train at once")
    if chain.finished:
        world.violate(f"attempt {number} trains, and the run is finished")
    newest = _newest_step(lines)
    if training.step != newest:
        world.violate(f"attempt {number} goes on from step {training.step}, and there is a checkpoint of step {newest}")
    token = token_of(chain.run_id)
    successors = [each.job for each in world.waiting() if token in each.comment.split() and not each.restarts]
    if len(successors) > 1:
        world.violate(f"two successors wait while attempt {number} begins: {successors}")
    cancel_s = world.truth.cancel_s
    told = chain.attempt(number - 1)
    if cancel_s is not None and told is not None and told.ended_s is not None and told.ended_s < cancel_s:
        # Between the decision and the end of the job; a successor that can ask Slurm then doesn't begin.
        world.counts["cancelled after the decision, and nobody could be asked"] += 1
    elif cancel_s is not None and life.start_s > cancel_s and life.queued_by != "person":
        ago_s = life.start_s - cancel_s
        world.violate(f"attempt {number} trains, although somebody cancelled the run {ago_s:.0f} s ago")
    before = chain.attempt(number - 1)
    if before is not None and before.ended is not None and before.ended.decision in ("stop", "hold"):
        if life.queued_by == "ours" and before.ended.cause is not Cause.FENCED and not _wanted_since(world, chain):
            world.violate(f"attempt {number} trains in a job that we queued, although the run was stopped")
        world.counts[f"trained after a stop, queued by {life.queued_by}"] += 1


def _wanted_since(world: World, chain: Chain) -> bool:
    return any("anyway" in text and "is queued again" in text for text in world.story)


def _newest_step(lines: list[Line]) -> int:
    steps: dict[str, int] = {}
    for line in lines:
        match line.record:
            case CheckpointCommitted(checkpoint, step):
                steps[checkpoint] = step
            case CheckpointQuarantined(checkpoint):
                steps.pop(checkpoint, None)
    return max(steps.values(), default=0)


def why_it_stands_still(world: World) -> str | None:  # noqa: PLR0912  # a list of excuses, the first that holds
    """What excuses that a person has to help. None: nothing does, and a requeue was lost."""
    truth, chain = world.truth, world.chain()
    if truth.cancel_s is not None:
        return "somebody cancelled it"
    last = world.lives[-1] if world.lives else None
    if last is None:
        return None
    newest = chain.newest_attempt if chain is not None else None
    silent_s = world.cluster.last_silence_s
    silence = silent_s is not None and silent_s >= last.start_s
    if newest is not None and newest.ended is not None and newest.ended.decision in ("stop", "hold"):
        cause = newest.ended.cause
        if cause in (Cause.CANCELLED, Cause.CANCELLED_BY_ADMIN) and not truth.ever_cancelled:
            return None
        if cause is Cause.OPERATOR_STOP and truth.operator_s is None:
            return None
        if cause is Cause.FENCED:
            return None
        return f"it was stopped: {cause.value}"
    dead = last.name in truth.all_dead or (last.batch is not None and last.batch.killed)
    if dead and world.schedule.setting.chain and not _had_a_successor(world, last):
        return "it was killed before it had a successor"
    if last.name in truth.all_dead:
        if not world.schedule.setting.chain:
            return "everything in the job was killed"
        return "everything in the job was killed, and the controller had been silent" if silence else None
    killed = last.batch is not None and last.batch.killed
    if killed and not world.schedule.setting.chain:
        deputy = last.deputy
        if deputy is not None and not deputy.killed and not silence:
            return None
        return "the supervisor was killed, and " + ("there was no deputy" if deputy is None else "its deputy, too")
    if killed and silence:
        return "the supervisor was killed, and the controller had been silent"
    if silence:
        return "the controller was silent"
    return None


def _had_a_successor(world: World, life: Life) -> bool:
    chain = world.chain()
    attempt = chain.attempt(life.attempt) if chain is not None and life.attempt is not None else None
    return attempt is not None and attempt.successor is not None


def check_the_end(world: World) -> None:
    lines = world.lines()
    chain = Chain.of(lines)
    _every_end_is_told_once(world, chain, lines)
    _nothing_is_done_twice(world, lines)
    _no_checkpoint_is_lost(world, chain, lines)
    _status_can_say_why(world, chain)


def _every_end_is_told_once(world: World, chain: Chain, lines: list[Line]) -> None:
    ends = Counter(line.record.attempt for line in lines if isinstance(line.record, AttemptEnded))
    for attempt in chain.attempts:
        ended = attempt.ended
        if ended is None and chain.finished and attempt is chain.newest_attempt:
            world.counts["finished, and nobody has looked since its supervisor died"] += 1
            continue
        if ended is None or not ended.because or not ended.decision or not ended.decision_reason:
            world.violate(f"the end of attempt {attempt.number} is not told")
            continue
        world.counts[f"cause: {ended.cause.value}"] += 1
        world.counts[f"decision: {ended.decision}"] += 1
        if attempt.carried_out is None:
            world.counts[f"not told to be carried out: {ended.decision}"] += 1
        if ends[attempt.number] != 1:
            world.violate(f"the end of attempt {attempt.number} is told {ends[attempt.number]} times")


def _nothing_is_done_twice(world: World, lines: list[Line]) -> None:
    done = Counter(line.record.attempt for line in lines if isinstance(line.record, DecisionCarriedOut))
    for number, times in done.items():
        if times > 1:
            world.violate(f"the decision about attempt {number} is carried out {times} times")


def _no_checkpoint_is_lost(world: World, chain: Chain, lines: list[Line]) -> None:
    newest_attempt = 0
    for line in lines:
        match line.record:
            case AttemptStarted(attempt):
                newest_attempt = attempt
            case CheckpointCommitted(attempt=attempt) | AttemptResumed(attempt=attempt):
                if attempt != newest_attempt:
                    world.violate(f"attempt {attempt} writes although attempt {newest_attempt} has begun")
    loadable = chain.loadable()
    for checkpoint in loadable:
        if not all((world.run.path / part.file).is_file() for part in checkpoint.committed.parts):
            world.violate(f"files of {checkpoint.committed.checkpoint} are missing")
    final = json.loads((world.run.path / loadable[0].committed.parts[0].file).read_bytes())
    if (final["step"], final["value"]) != (STEPS, value_after(STEPS)):
        world.violate("the final state is not that of an undisturbed training")


def _status_can_say_why(world: World, chain: Chain) -> None:
    run = world.run
    told = Told(run.path, chain, None, outlook(run.path, chain, None), budgets_of(run, chain), None)
    value = json.loads(json.dumps(_as_json(told)))
    if not value["finished"]:
        world.violate("status has no word for how it ended")
