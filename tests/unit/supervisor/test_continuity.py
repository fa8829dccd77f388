"""Who may begin an attempt, and what of a successor's environment is for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause, Record, RunFinished, SuccessorPlanned, SuccessorQueued
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.requeue.successor import SUCCESSOR_OF, token_of
from slurm_resilience.signals.ladder import SlurmTimes
from slurm_resilience.slurm.facts import JobFacts, job_facts
from slurm_resilience.supervisor.continuity import Continuity
from slurm_resilience.supervisor.preparation import Granted
from slurm_resilience.supervisor.request import ContinueBy, Request
from slurm_resilience.supervisor.surroundings import Mode, refuse_chain_elsewhere
from tests.faults.fake_slurm import FakeClock, FakeSlurm, running
from tests.unit.cli.told_runs import ended, resumed, started, tell
from tests.unit.supervisor.requests import request

CHAINED = replace(request("python train.py"), continue_by=ContinueBy.CHAIN)


def facts_of(job: str, restarts: int = 0) -> JobFacts:
    variables = {"SLURM_JOB_ID": job, "ENVIRONMENT": "BATCH", "SLURM_CLUSTER_NAME": "c1"}
    found = job_facts(variables | ({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}))
    assert found is not None
    return found


class Scene:
    """A run with this journal, and a job of Slurm's that has just started on it."""

    def __init__(
        self,
        folder: Path,
        *told: Record,
        job: str = "101",
        restarts: int = 0,
        wanted: Request = CHAINED,
        comment: str = "",
    ) -> None:
        self.run = tell(folder / "run", *told)
        self.journal = Journal(self.run)
        self.said: list[str] = []
        self.slurm = FakeSlurm({"100": running("100"), job: running(job, comment=comment)})
        environment = {SUCCESSOR_OF: "1:100", "SLURM_RESILIENCE_FROM_SCRATCH": "yes"}
        facts, clock = facts_of(job, restarts), FakeClock()
        self.continuity = Continuity(
            self.run, self.journal, wanted, Mode.BATCH, facts, self.slurm, clock, environment, self.said.append
        )
        self.granted = Granted(SlurmTimes(30, 0, None, None), "c1", self.slurm.jobs[job], ())

    @property
    def chain(self) -> Chain:
        return Chain.of(self.journal.read())

    def turned_away(self) -> int | None:
        return self.continuity.turned_away(self.granted)


STOPPED = ended(1, "stop", Cause.OPERATOR_STOP)


def test_the_successor_of_a_stopped_attempt_leaves_with_76_and_the_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, started(1), SuccessorQueued(1, "101"), STOPPED)
    assert scene.turned_away() == 76
    assert STOPPED.decision_reason in scene.said[-1]
    assert len(scene.chain.attempts) == 1


@pytest.mark.parametrize(
    ("job", "restarts"), [("101", 1), ("102", 0)], ids=["a person requeued the successor", "a person submitted it"]
)
def test_what_a_person_starts_goes_on_whatever_was_decided(tmp_path: Path, job: str, restarts: int) -> None:
    scene = Scene(tmp_path, started(1), SuccessorQueued(1, "101"), STOPPED, job=job, restarts=restarts)
    assert scene.turned_away() is None


def test_a_job_submitted_from_inside_of_an_attempt_is_no_successor(tmp_path: Path) -> None:
    """It has inherited the variable that says so; its comment doesn't bear it out."""
    scene = Scene(tmp_path, started(1), STOPPED, job="102")
    assert not scene.continuity.follows(scene.chain, scene.granted)
    assert scene.turned_away() is None


def test_a_successor_whose_submission_nobody_could_tell_is_one_all_the_same(tmp_path: Path) -> None:
    scene = Scene(tmp_path, started(1), SuccessorPlanned(1, "t"), STOPPED, job="102")
    comment = token_of(scene.chain.run_id)
    scene.granted = replace(scene.granted, record=running("102", comment=f"mine {comment}"))
    assert scene.turned_away() == 76


def test_a_finished_run_is_left_with_0(tmp_path: Path) -> None:
    finished = ended(1, "finish", Cause.FINISHED)
    assert Scene(tmp_path, started(1), SuccessorQueued(1, "101"), finished, RunFinished(1)).turned_away() == 0


def test_the_first_attempt_of_a_run_may_begin(tmp_path: Path) -> None:
    assert Scene(tmp_path).turned_away() is None


def test_a_run_whose_budget_is_spent_is_not_started_again_by_slurm(tmp_path: Path) -> None:
    """Slurm requeued it twice before anybody could weigh the ends: a node that kills its supervisor, say."""
    told: list[Record] = [started(1), resumed(1, 0), ended(1, "leave", Cause.CRASHED), started(2), resumed(2, 0)]
    scene = Scene(
        tmp_path, *told, job="100", restarts=2, wanted=replace(request("python train.py"), limits=Limits(crashes=1))
    )
    assert scene.turned_away() == 76
    assert scene.chain.attempts[-1].ended is not None  # told by who was turned away


def test_from_scratch_was_meant_for_the_first_attempt(tmp_path: Path) -> None:
    follower = Scene(tmp_path / "a", started(1), SuccessorQueued(1, "101"), ended(1, "successor"))
    assert "SLURM_RESILIENCE_FROM_SCRATCH" not in follower.continuity.environment_of_training(
        follower.chain, follower.granted
    )
    first = Scene(tmp_path / "b", job="102")
    assert "SLURM_RESILIENCE_FROM_SCRATCH" in first.continuity.environment_of_training(first.chain, first.granted)


def test_a_dry_run_says_that_a_successor_is_queued(tmp_path: Path) -> None:
    assert Scene(tmp_path).continuity.description() == [
        "a successor is queued at the start: this batch script again, --dependency=afterany:101"
    ]
    assert Scene(tmp_path / "b", wanted=request("python train.py")).continuity.description() == []


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BATCH])
def test_a_chain_is_for_batch_jobs(mode: Mode) -> None:
    with pytest.raises(ConfigurationError, match="--continue=chain"):
        refuse_chain_elsewhere(CHAINED, mode)
    refuse_chain_elsewhere(request("python train.py"), mode)


def test_a_chain_that_may_not_go_on_is_a_contradiction() -> None:
    with pytest.raises(ConfigurationError, match="contradict"):
        refuse_chain_elsewhere(replace(CHAINED, requeue=False), Mode.BATCH)
    refuse_chain_elsewhere(CHAINED, Mode.BATCH)
