"""A person's scancel between the decision and the deed: nobody undoes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.requeue.decision import WITHDRAWN, Requeue, Way
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from slurm_resilience.supervisor.ending import Conclusion, NotDone, Seen
from slurm_resilience.supervisor.past import Past, leave
from tests.faults.chain_scene import make_link
from tests.faults.fake_slurm import FakeSlurm, running
from tests.faults.test_ending import SEEN, World

DEAD = replace(SEEN, supervisor_died=True)
BEING_CANCELLED = running(state=JobState.UNKNOWN, completing=True, end_s=990.0)


class Changing(FakeSlurm):
    """The job's record becomes `then` once it has been asked for: by whoever decides."""

    then: JobRecord

    def job(self, job: JobRef) -> JobRecord | None:
        record = super().job(job)
        self.jobs[job] = self.then
        return record


def conclude(folder: Path, then: JobRecord, seen: Seen = SEEN) -> tuple[World, Conclusion]:
    world = World(folder)
    world.slurm.__class__ = Changing
    world.slurm.then = then  # type: ignore[attr-defined]
    world.begin()
    world.agents(Outcome.STOPPED, "WARNING")
    return world, world.ending().conclude(1, seen)


@pytest.mark.parametrize("then", [BEING_CANCELLED, running(state=JobState.CANCELLED)], ids=["ending", "over"])
def test_a_job_that_was_cancelled_since_is_not_queued_again(tmp_path: Path, then: JobRecord) -> None:
    world, conclusion = conclude(tmp_path, then)
    assert isinstance(conclusion.decision, Requeue)
    assert world.slurm.requeued == []
    assert conclusion.outcome == NotDone("job 7 was cancelled; to go on, submit it again", final=True, overtaken=True)
    assert any("attempt 1 was to be followed by another, but job 7 was cancelled" in said for said in world.said)
    done = world.attempt().carried_out
    assert done is not None
    assert done.how.startswith(f"{WITHDRAWN}job 7 was cancelled")
    assert leave(Past(1, conclusion, 75, Way.REQUEUE), (), world.said.append) == 76


def test_it_stands_whoever_looks_later(tmp_path: Path) -> None:
    world, first = conclude(tmp_path, BEING_CANCELLED)
    world.slurm.then = running(state=JobState.FAILED)  # type: ignore[attr-defined]
    assert world.ending().conclude(1, DEAD).outcome == first.outcome
    assert world.slurm.requeued == []


@pytest.mark.parametrize(
    "then",
    [
        running(),
        replace(BEING_CANCELLED, reason="TimeLimit"),
        replace(BEING_CANCELLED, reason="NodeDown"),
        replace(BEING_CANCELLED, preempted_s=990.0),
        running(state=JobState.FAILED),
    ],
    ids=["runs", "time limit", "lost node", "preempted", "left by itself"],
)
def test_what_is_being_ended_for_another_reason_is_queued_again(tmp_path: Path, then: JobRecord) -> None:
    world, conclusion = conclude(tmp_path, then)
    assert conclusion.carried_out
    assert world.slurm.requeued == ["7"]


def test_to_a_deputy_the_job_is_being_ended_because_the_supervisor_died(tmp_path: Path) -> None:
    world, conclusion = conclude(tmp_path, BEING_CANCELLED, DEAD)
    assert conclusion.carried_out
    assert world.slurm.requeued == ["7"]


def test_a_young_job_that_slurm_ended_in_its_first_second_looks_cancelled_and_is_queued_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.slurm.jobs["7"] = running(state=JobState.CANCELLED, start_s=100.0, end_s=100.0)
    world.begin()
    assert world.ending().conclude(1, Seen(None, (), True, 2, None)).carried_out
    assert world.slurm.requeued == ["7"]


@pytest.mark.parametrize(("state", "leaves"), [(JobState.CANCELLED, 76), (JobState.FAILED, None)])
def test_a_successor_does_not_follow_a_requeued_job_that_was_cancelled_while_it_completed(
    tmp_path: Path, state: JobState, leaves: int | None
) -> None:
    link = make_link(tmp_path)
    link.make_sure()
    link.world.agents(Outcome.STOPPED, "TERMINATION")
    link.slurm.requeue(JobRef("7"))  # by hand, while it runs
    link.conclude()
    assert link.attempt.ended is not None
    assert link.attempt.ended.decision == "leave"
    link.is_over(state)
    assert link.start(JobRef("1000")) == leaves
