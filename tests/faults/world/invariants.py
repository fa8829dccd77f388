"""What must be true whatever was done: docs/design.md, one function a law."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_resilience.cli.budget import budgets_of
from slurm_resilience.cli.outlook import outlook
from slurm_resilience.cli.status import Told, _as_json
from slurm_resilience.errors import EXIT_OWNED, EXIT_WILL_NOT_GO_ON
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
from slurm_resilience.requeue.starter import was_stopped
from slurm_resilience.requeue.successor import token_of
from slurm_resilience.slurm.client import JobRecord, JobState
from tests.faults.world.clock import Process
from tests.faults.world.cluster import Life, Requeued
from tests.faults.world.training import STEPS, Training
from tests.slurm.light_training import value_after

if TYPE_CHECKING:
    from tests.faults.world.world import World

KNOWN_FOR_S = 4.0
"""As long as Slurm's word on a job holds good: there is no requeue-if-unchanged, and one answer may take this long."""


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

    def cancelled(self, job: str, restarts: int, now_s: float, *, others: bool) -> None:
        """`others`: it was one of several jobs of the run, which is no word about the run."""
        self.cancel_s, self.ever_cancelled = None if others else now_s, True
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
    if process.name.startswith("deputy"):  # to it the job is being ended because the supervisor died
        world.counts["cancelled, then the supervisor was killed, and its deputy can't tell"] += 1
        world.truth.cancel_s = None
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
    before = chain.attempt(number - 1)
    if before is not None and before.ended is not None:
        _check_it_is_wanted(world, life, number, before)


def _check_it_is_wanted(world: World, life: Life, number: int, before: Attempt) -> None:
    """Nobody has cancelled the run, and it was not stopped, unless a person has started it since. What nobody could
    know is counted."""
    cancel_s, stopped = world.truth.cancel_s, was_stopped(before)
    wanted_since = any("anyway" in text and "is queued again" in text for text in world.story)
    if stopped:
        world.counts[f"trained after a stop, queued by {life.queued_by}"] += 1
    if life.queued_by == "person":
        return
    if stopped and life.queued_by == "slurm":
        # requeue/starter.py: nothing in the journal tells Slurm's requeue of a stopped job from a person's.
        world.counts["stopped, and started once more by Slurm itself"] += 1
    elif stopped and before.started.job != life.job and not world.schedule.setting.chain:
        world.counts["stopped in one job, and another was queued again before"] += 1  # it was submitted twice
    elif stopped and life.queued_by == "ours" and not wanted_since:
        world.violate(f"attempt {number} trains in a job that we queued, although the run was stopped")
    elif cancel_s is None or life.start_s <= cancel_s:
        return
    elif before.ended_s is not None and before.ended_s < cancel_s and _could_not_be_asked(world, life, before):
        world.counts["cancelled after the decision, and nobody could be asked"] += 1
    elif before.started.job not in world.cluster.jobs and not world.schedule.setting.accounting:
        world.counts["cancelled, and forgotten by Slurm before anybody could ask"] += 1
    else:
        world.violate(f"attempt {number} trains, {life.start_s - cancel_s:.0f} s after somebody cancelled the run")


def _could_not_be_asked(world: World, life: Life, before: Attempt) -> bool:
    """Between the decision and the end of the job; a successor that can ask Slurm then doesn't begin."""
    return (world.cluster.last_silence_s or 0.0) >= life.start_s or before.started.job not in world.cluster.jobs


def _newest_step(lines: list[Line]) -> int:
    steps: dict[str, int] = {}
    for line in lines:
        match line.record:
            case CheckpointCommitted(checkpoint, step):
                steps[checkpoint] = step
            case CheckpointQuarantined(checkpoint):
                steps.pop(checkpoint, None)
    return max(steps.values(), default=0)


def why_it_stands_still(world: World) -> str | None:
    """What excuses that a person has to help. None: nothing does, and a requeue was lost."""
    if world.truth.cancel_s is not None:
        return "somebody cancelled it"
    if not world.lives:
        return None
    chain, last = world.chain(), world.lives[-1]
    newest = chain.newest_attempt if chain is not None else None
    code = None if last.batch is None else last.batch.code
    if newest is not None and newest.ended is not None and newest.ended.decision in ("stop", "hold"):
        return _excuse_of_a_stop(world, newest.ended.cause)
    if code == EXIT_WILL_NOT_GO_ON and last.attempt is None:
        return "it was turned away at its start: a budget is spent"
    if code == EXIT_OWNED and last.queued_by == "person" and _is_forgotten(world, newest):
        return "it was refused: Slurm has forgotten the job of the run's owner"
    began = [life for life in world.lives if life.batch is None or life.batch.code != EXIT_OWNED]
    return _excuse_of_deaths(world, began[-1] if began else last)


def _excuse_of_a_stop(world: World, cause: Cause) -> str | None:
    if cause in (Cause.CANCELLED, Cause.CANCELLED_BY_ADMIN) and not world.truth.ever_cancelled:
        return None
    if cause is Cause.FENCED or (cause is Cause.OPERATOR_STOP and world.truth.operator_s is None):
        return None
    return f"it was stopped: {cause.value}"


def _excuse_of_deaths(world: World, last: Life) -> str | None:
    """Everybody who could have gone on with it is dead, or was not answered."""
    chained, silent_s = world.schedule.setting.chain, world.cluster.last_silence_s
    silence = silent_s is not None and silent_s >= last.start_s
    everything = last.ghost or last.name in world.truth.all_dead
    supervisor = last.batch is not None and last.batch.killed
    if chained and (everything or supervisor) and not _had_a_successor(world, last):
        return "it was killed before it had a successor"
    if not chained and everything:
        return "everything in the job was killed"
    if not chained and supervisor and last.deputy is None:
        return "the supervisor was killed, and there was no deputy"
    if not chained and supervisor and last.deputy is not None and last.deputy.killed:
        return "the supervisor was killed, and its deputy, too"
    return "the controller was silent" if silence else None


def _is_forgotten(world: World, attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.carried_out is None and attempt.started.job not in world.cluster.jobs


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
