"""The end of an attempt, with a Slurm that misbehaves: written before done, done once, never lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.errors import ManifestUnavailable, SlurmRejected
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, RankEnd, write_agent_record
from slurm_resilience.manifest.attempt import begin_attempt
from slurm_resilience.manifest.chain import Attempt, Chain
from slurm_resilience.manifest.journal import Journal, Writer
from slurm_resilience.manifest.records import (
    AttemptEnded,
    AttemptResumed,
    Cause,
    CheckpointCommitted,
    CheckpointQuarantined,
    DecisionCarriedOut,
    Line,
    SaveReason,
    TrainingFinished,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import Hold, Way
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobRef, JobState, PastLife
from slurm_resilience.supervisor.ending import Conclusion, Done, Ending, NotDone, Seen
from tests.faults.fake_slurm import FakeClock, FakeSlurm, running

SEEN = Seen(75, (), False, 2, None)


class World:
    """A run with one attempt under way, its Slurm and its clock."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDirectory(folder / "run")
        self.clock = FakeClock()
        self.slurm = FakeSlurm({"7": running()})
        self.journal = Journal(self.run, clock=self.clock)
        self.journal.create("test")
        self.said: list[str] = []
        self.number = 0

    def begin(self, restart_count: int = 0, job: str = "7") -> int:
        self.number = begin_attempt(
            self.run,
            mode="batch",
            command=["train.py"],
            job=job,
            restart_count=restart_count,
            cluster="fake",
            nodes="n[1-2]",
            liveness_by_slurm=lambda _: Liveness.GONE,
            clock=self.clock,
        )
        self.run.attempt(self.number).mkdir(parents=True, exist_ok=True)
        return self.number

    def agents(self, outcome: Outcome, reason: str | None, step: int = 40) -> None:
        for node in range(2):
            rank = RankEnd(node, 0, 1, "STOPPED", step, step, step)
            record = AgentRecord(node, f"n{node + 1}", 1, 0.0, outcome, stop_reason=reason, ranks=(rank,))
            write_agent_record(self.run.agent_record(self.number, node), record)

    def commit(self, step: int) -> None:
        committed = CheckpointCommitted(
            checkpoint_id(step, self.number), step, self.number, SaveReason.STOP, 2, (), 1.0
        )
        self.journal.append(AttemptResumed(self.number, None, 0, 2), committed)

    def ending(self, way: Way = Way.REQUEUE, patience_s: float = 60.0) -> Ending:
        choose: Callable[[Cause], Way] = lambda _: way  # noqa: E731
        give_up_s = self.clock.monotonic_s() + patience_s
        return Ending(self.run, self.journal, self.slurm, self.clock, Limits(), choose, self.said.append, give_up_s)

    def attempt(self) -> Attempt:
        attempt = Chain.of(self.journal.read()).attempt(self.number)
        assert attempt is not None
        return attempt


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_preempted_attempt_is_queued_again_once(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    first = world.ending().conclude(world.number, SEEN)
    second = world.ending().conclude(world.number, SEEN)
    assert first.cause is Cause.PREEMPTED
    assert second.carried_out
    assert world.slurm.requeued == ["7"]
    assert world.attempt().ended is not None


def test_the_decision_is_in_the_journal_before_it_is_carried_out(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.silent_for = 10**9
    conclusion = world.ending(patience_s=5).conclude(world.number, SEEN)
    assert not conclusion.carried_out
    ended = world.attempt().ended
    assert ended is not None
    assert ended.decision == "requeue"
    assert world.attempt().carried_out is None


def test_whoever_comes_next_carries_it_out(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.silent_for = 10**9
    world.ending(patience_s=5).conclude(world.number, SEEN)
    world.slurm.silent_for = 0
    assert world.ending().conclude(world.number, SEEN).carried_out
    assert world.slurm.requeued == ["7"]


def test_a_controller_that_comes_back_in_time_is_waited_for(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.silent_for = 6
    assert world.ending(patience_s=600).conclude(world.number, SEEN).carried_out
    assert world.slurm.requeued == ["7"]


def test_a_requeue_whose_answer_got_lost_is_not_done_twice(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.answer_lost = True
    assert world.ending().conclude(world.number, SEEN).carried_out
    assert world.slurm.requeued == ["7"]
    assert world.slurm.jobs["7"].restarts == 1


def test_what_somebody_else_has_requeued_is_left_alone(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.jobs["7"] = running(restarts=1)
    conclusion = world.ending().conclude(world.number, SEEN)
    assert conclusion.cause is Cause.REQUEUED_BY_HAND
    assert world.slurm.requeued == []


def test_a_refusal_because_slurm_was_faster_is_found_out_though_slurm_falls_silent(world: World) -> None:
    class WasFaster(FakeSlurm):
        def requeue(self, job: JobRef) -> None:
            self.jobs[job] = running(job, state=JobState.PENDING, restarts=1)
            self.silent_for = 2
            raise SlurmRejected(f"Job is pending execution for job {job}")

    world.slurm = WasFaster({"7": running()})
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    conclusion = world.ending().conclude(world.number, SEEN)
    assert conclusion.outcome == Done("somebody had queued the job again before us")
    assert world.attempt().carried_out is not None


def test_a_cancelled_job_is_not_queued_again(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.jobs["7"] = running(state=JobState.CANCELLED, completing=True)
    assert world.ending().conclude(world.number, SEEN).cause is Cause.CANCELLED
    assert world.slurm.requeued == []


def test_a_finished_run_is_finished_whatever_the_signals_said(world: World) -> None:
    world.begin()
    world.agents(Outcome.FINISHED, "TERMINATION")
    world.journal.append(TrainingFinished(world.number, 100))
    assert world.ending().conclude(world.number, SEEN).cause is Cause.FINISHED
    assert Chain.of(world.journal.read()).finished
    assert world.slurm.requeued == []


def test_crashes_without_progress_end_the_run_with_the_reason(world: World) -> None:
    reasons = []
    for restart in range(2):
        world.begin(restart_count=restart)
        world.journal.append(AttemptResumed(world.number, None, 0, 2))
        world.agents(Outcome.FAILED, None, step=3)
        world.slurm.jobs["7"] = running(restarts=restart)
        reasons.append(world.ending().conclude(world.number, Seen(1, (), False, 2, None)).decision.reason)
    assert "2 attempts in a row gained no step" in reasons[-1]
    assert world.slurm.requeued == ["7"]


def test_progress_gives_the_budget_back(world: World) -> None:
    for restart in range(5):
        world.begin(restart_count=restart)
        world.commit(step=10 * (restart + 1))
        world.agents(Outcome.FAILED, None, step=10 * (restart + 1) + 3)
        world.slurm.jobs["7"] = running(restarts=restart)
        world.ending().conclude(world.number, Seen(1, (), False, 2, None))
    assert len(world.slurm.requeued) == 5


def test_a_program_without_our_library_is_requeued_at_every_time_limit(world: World) -> None:
    for restart in range(5):
        world.begin(restart_count=restart)
        world.agents(Outcome.STOPPED, "TIME_LIMIT")
        world.slurm.jobs["7"] = running(restarts=restart)
        world.ending().conclude(world.number, SEEN)
    assert len(world.slurm.requeued) == 5


def test_the_last_completed_step_is_recorded_with_the_end(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION", step=40)
    world.ending().conclude(world.number, SEEN)
    ended = world.attempt().ended
    assert ended is not None
    assert ended.step == 40


def test_an_attempt_that_died_without_a_word_is_told_by_the_next(world: World) -> None:
    first = world.begin()
    world.agents(Outcome.RUNNING, None)
    second = world.begin(restart_count=1)
    world.ending().tell_past(second)
    told = Chain.of(world.journal.read()).attempt(first)
    assert told is not None
    assert told.ended is not None
    assert told.ended.cause is Cause.NODE_FAILURE
    assert told.carried_out is not None


def test_a_journal_on_a_full_disk_is_tried_again_until_it_takes_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    writing, refusals = world.journal.writing, [ManifestUnavailable("no space left on device")] * 3

    def full_at_first() -> AbstractContextManager[Writer]:
        if refusals:
            raise refusals.pop()
        return writing()

    monkeypatch.setattr(world.journal, "writing", full_at_first)
    assert world.ending().conclude(world.number, SEEN).carried_out
    assert world.slurm.requeued == ["7"]


@pytest.mark.parametrize("good", range(2))
def test_a_journal_that_can_not_be_read_for_a_moment_costs_no_requeue(
    world: World, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    """`good`: how many readings go well before that."""
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    reading = world.journal.read
    answers = [True] * good + [False] * 3

    def refused_for_a_moment() -> list[Line]:
        if answers and not answers.pop(0):
            raise ManifestUnavailable("the manifest is not available: Stale file handle")
        return reading()

    monkeypatch.setattr(world.journal, "read", refused_for_a_moment)
    assert world.ending().conclude(world.number, SEEN).carried_out
    assert world.slurm.requeued == ["7"]


def test_the_node_that_left_no_record_is_named(world: World) -> None:
    world.begin()
    write_agent_record(world.run.agent_record(world.number, 0), AgentRecord(0, "n1", 1, 0.0, Outcome.FAILED))
    world.ending().conclude(world.number, Seen(1, (), False, 2, None))
    ended = world.attempt().ended
    assert ended is not None
    assert "1 of 2 node agents left no record: n2" in ended.evidence


def crash(world: World, restart: int, words: str = "ValueError: loss is nan at step 21") -> Conclusion:
    """An attempt that loads step 20 and dies of it."""
    world.begin(restart_count=restart)
    world.journal.append(AttemptResumed(world.number, checkpoint_id(20, 1), 20, 2))
    world.agents(Outcome.FAILED, None, step=21)
    world.run.rank_error(world.number, 0).write_text(f"Traceback (most recent call last):\n{words}\n")
    world.slurm.jobs["7"] = running(restarts=restart)
    return world.ending().conclude(world.number, Seen(1, (), False, 2, None))


def test_a_checkpoint_that_kills_its_readers_twice_is_put_aside_in_the_same_write_as_the_end(world: World) -> None:
    world.begin()
    world.commit(10)
    world.commit(20)
    world.agents(Outcome.STOPPED, "TERMINATION", step=20)
    world.ending().conclude(world.number, SEEN)
    assert crash(world, 1).carried_out
    before = len(world.journal.read())
    assert "goes back to step 10" in crash(world, 2).decision.reason
    kinds = [type(line.record) for line in world.journal.read()[before + 2 :]]
    assert kinds == [CheckpointQuarantined, AttemptEnded, DecisionCarriedOut]
    assert Chain.of(world.journal.read()).next_step == 10


def test_what_slurm_has_queued_again_although_the_run_is_given_up_is_kept_from_starting(world: World) -> None:
    conclusions: list[Conclusion] = []
    for restart in range(2):
        world.begin(restart_count=restart)
        world.journal.append(AttemptResumed(world.number, None, 0, 2))
        world.agents(Outcome.FAILED, None, step=3)
        world.run.rank_error(world.number, 0).write_text("Traceback (most recent call last):\nValueError: bad\n")
        world.slurm.jobs["7"] = running(state=JobState.PENDING, restarts=restart + 1)
        conclusions.append(world.ending().conclude(world.number, Seen(1, (), False, 2, None)))
    assert isinstance(conclusions[-1].decision, Hold)
    assert conclusions[-1].carried_out
    assert world.slurm.cancelled == ["7"]
    ended = world.attempt().ended
    assert ended is not None
    assert ended.decision == "hold"
    assert ended.signature is not None
    assert any("requeued" in words for words in ended.outranked)


def test_an_admins_cancellation_is_told_from_the_users_where_there_is_accounting(world: World) -> None:
    world.begin()
    world.slurm.configured = replace(world.slurm.configured, accounting=True)
    world.slurm.jobs["7"] = running(state=JobState.CANCELLED)
    somebody = os.getuid() + 1
    life = PastLife(JobState.CANCELLED, somebody, 0, 15, 0.0, 100.0, "n[1-2]", "None")
    world.slurm.accounting = {"7": (life,)}
    assert world.ending().conclude(world.number, Seen(None, (), True, 2, None)).cause is Cause.CANCELLED_BY_ADMIN


def test_a_refusal_is_said_with_what_to_do(world: World) -> None:
    world.begin()
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.slurm.jobs["7"] = running(requeue=False)
    outcome = world.ending().conclude(world.number, SEEN).outcome
    assert isinstance(outcome, NotDone)
    assert outcome.final
    assert "submit the job again" in outcome.why
