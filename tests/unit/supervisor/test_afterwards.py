"""What `slurm-resilience resume` does about every state that a run can be left in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError, RunOwned
from slurm_resilience.launch.plan import write_plan
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptStarted,
    Cause,
    DecisionCarriedOut,
    Record,
    RunFinished,
    SuccessorPlanned,
    SuccessorQueued,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.slurm.client import JobState
from slurm_resilience.supervisor.afterwards import Afterwards
from tests.faults.fake_slurm import FakeClock, FakeSlurm, running
from tests.unit.agent.test_command_line import PLAN
from tests.unit.cli.told_runs import DEAD, ELSEWHERE, ended, own, resumed, saved, started, tell

REQUEUED = DecisionCarriedOut(1, "scontrol requeue 100")
OF_JOB = {"host": "node17", "cluster": "fake"}
"""An owner whom only Slurm can say something about."""


@dataclass
class Scene:
    run: RunDirectory
    slurm: FakeSlurm
    said: list[str] = field(default_factory=list)

    def resume(
        self, *, dry_run: bool = False, anyway: bool = False, take_over: bool = False, requeue_now: bool = False
    ) -> int:
        afterwards = Afterwards(
            self.run,
            self.slurm,
            FakeClock(),
            self.said.append,
            dry_run,
            anyway,
            take_over,
            requeue_now,
            {"PATH": "/bin"},
        )
        return afterwards.resume()

    @property
    def waiting(self) -> list[str]:
        return [record.job for record in self.slurm.jobs.values() if record.state is JobState.PENDING]

    @property
    def chain(self) -> Chain:
        return Chain.of(Journal(self.run).read())

    @property
    def cause(self) -> Cause | None:
        newest = self.chain.newest_attempt
        assert newest is not None
        return newest.ended.cause if newest.ended is not None else None


def scene(folder: Path, *records: Record, **job: object) -> Scene:
    """A run with this journal, whose job Slurm knows in this state."""
    return Scene(tell(folder / "run", *records), FakeSlurm({"100": running("100", **job)}))


FAILED = {"state": JobState.FAILED, "exit_signal": 9}


def test_an_attempt_that_died_without_a_word_is_concluded_and_queued_again(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), resumed(1, 0), saved(10, 1), **FAILED)
    own(found.run, 1, **DEAD)
    assert found.resume() == 75
    assert found.cause is Cause.SUPERVISOR_DIED
    assert found.slurm.requeued == ["100"]
    assert not found.run.lease.exists()


def test_twice_is_harmless(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), resumed(1, 0), saved(10, 1), **FAILED)
    assert (found.resume(), found.resume()) == (75, 75)
    assert found.slurm.requeued == ["100"]
    assert "job 100 has been queued again and is PENDING" in found.said[-1]


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), **FAILED)
    before = found.run.journal.read_bytes()
    assert found.resume(dry_run=True) == 0
    assert found.said == ["would conclude attempt 1 and carry out what that decides"]
    assert found.run.journal.read_bytes() == before
    assert found.slurm.requeued == []


def test_a_decision_that_was_not_carried_out_is_carried_out(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1, "requeue"), **FAILED)
    assert found.resume() == 75
    assert found.slurm.requeued == ["100"]


def test_a_controller_that_stays_silent_leaves_the_decision_for_the_next(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1, "requeue"), **FAILED)
    found.slurm.silent_for = 10**9
    assert found.resume() == 1
    found.slurm.silent_for = 0
    assert found.resume() == 75
    assert found.slurm.requeued == ["100"]


@pytest.mark.parametrize("owner", [{}, OF_JOB], ids=["seen alive here", "its job runs"])
def test_a_live_run_is_refused(tmp_path: Path, owner: dict[str, object]) -> None:
    found = scene(tmp_path, started(1))
    own(found.run, 1, **owner)
    with pytest.raises(RunOwned, match="it is alive"):
        found.resume()
    assert found.cause is None


def test_an_owner_elsewhere_whose_job_is_over_is_gone(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), resumed(1, 0), saved(10, 1), **FAILED)
    own(found.run, 1, **OF_JOB)
    assert found.resume() == 75


@pytest.mark.parametrize("silent", [False, True])
def test_an_owner_that_nobody_can_prove_gone_needs_a_persons_word(tmp_path: Path, silent: bool) -> None:
    found = scene(tmp_path, started(1, job=None))
    own(found.run, 1, **ELSEWHERE)
    found.slurm.silent_for = 10**9 if silent else 0
    with pytest.raises(RunOwned, match="--take-over"):
        found.resume()
    assert found.resume(take_over=True) == 76
    assert found.cause is Cause.SUPERVISOR_DIED


def chained(folder: Path, *records: Record, **job: object) -> Scene:
    found = scene(folder, *records, **job)
    found.run.attempt(1).mkdir(parents=True)
    write_plan(found.run.plan(1), replace(PLAN, chain=True))
    return found


PLANNED = SuccessorPlanned(1, "slurm-resilience:run")
FOLLOWED = (ended(1, "successor"), DecisionCarriedOut(1, "job 101 is queued and goes on"))


def test_a_chain_whose_supervisor_died_before_it_had_a_successor_gets_one(tmp_path: Path) -> None:
    found = chained(tmp_path, started(1), resumed(1, 0), saved(10, 1), **FAILED)
    own(found.run, 1, **DEAD)
    assert (found.resume(), found.resume()) == (75, 75)
    assert found.cause is Cause.SUPERVISOR_DIED
    assert found.slurm.requeued == []
    assert found.waiting == ["1000"]
    assert found.slurm.submitted["1000"].environment["SLURM_RESILIENCE_SUCCESSOR_OF"] == "1:100"
    assert "job 1000 is queued and goes on with the run" in found.said[-1]


def test_of_a_chain_it_is_said_where_the_successor_is(tmp_path: Path) -> None:
    found = chained(tmp_path, started(1), PLANNED, SuccessorQueued(1, "101"), *FOLLOWED, **FAILED)
    found.slurm.jobs["101"] = running("101", state=JobState.PENDING, dependency="afterany:100(unfulfilled)")
    assert found.resume() == 75
    assert "job 101 is queued and goes on" in found.said[-1]
    assert found.waiting == ["101"]


def test_a_successor_that_was_lost_before_it_could_begin_is_queued_anew(tmp_path: Path) -> None:
    found = chained(tmp_path, started(1), PLANNED, SuccessorQueued(1, "101"), *FOLLOWED, **FAILED)
    found.slurm.jobs["101"] = running("101", state=JobState.NODE_FAIL)
    assert found.resume(dry_run=True) == 0
    assert found.waiting == []
    assert found.resume() == 75
    assert found.waiting == ["1000"]


def test_a_successor_that_a_person_cancelled_is_not_queued_anew_without_their_word(tmp_path: Path) -> None:
    found = chained(tmp_path, started(1), PLANNED, SuccessorQueued(1, "101"), *FOLLOWED, **FAILED, requeue=False)
    found.slurm.jobs["101"] = running("101", state=JobState.CANCELLED)
    assert found.resume() == 76
    assert found.waiting == []
    assert found.resume(anyway=True) == 75
    assert found.slurm.requeued == ["100"]


def test_a_stop_whose_successor_could_not_be_cancelled_is_carried_out(tmp_path: Path) -> None:
    found = chained(tmp_path, started(1), PLANNED, SuccessorQueued(1, "101"), ended(1, "stop"), **FAILED)
    found.slurm.jobs["101"] = running("101", state=JobState.PENDING)
    assert found.resume() == 76
    assert found.waiting == []


def test_the_delay_of_a_requeued_job_is_taken_back_on_a_persons_word_alone(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1), REQUEUED, state=JobState.PENDING, reason="BeginTime", restarts=1)
    assert found.resume() == 75
    assert found.resume(requeue_now=True, dry_run=True) == 0
    assert found.slurm.started_now == []
    assert found.resume(requeue_now=True) == 75
    assert found.slurm.started_now == ["100"]
    assert any("credentials" in sentence for sentence in found.said)


def test_a_job_that_waits_for_nodes_has_no_delay_to_take_back(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1), REQUEUED, state=JobState.PENDING, reason="Resources", restarts=1)
    assert found.resume(requeue_now=True) == 75
    assert found.slurm.started_now == []
    assert "no delay to take back" in found.said[-1]


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1, "finish", Cause.FINISHED), RunFinished(1), state=JobState.COMPLETED)
    assert found.resume() == 0
    assert found.resume(anyway=True) == 0
    assert found.slurm.requeued == []


def test_a_run_that_never_started_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="never started"):
        scene(tmp_path).resume()


def test_a_stopped_run_goes_on_only_on_a_persons_word(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1, "stop", Cause.OPERATOR_STOP), DecisionCarriedOut(1, "nothing to do"))
    found.slurm.jobs["100"] = replace(found.slurm.jobs["100"], state=JobState.FAILED)
    assert found.resume() == 76
    assert found.resume(anyway=True, dry_run=True) == 0
    assert found.slurm.requeued == []
    assert found.resume(anyway=True) == 75
    assert found.slurm.requeued == ["100"]


def test_a_job_that_was_cancelled_while_it_waited_does_not_go_on_by_itself(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1), REQUEUED, state=JobState.CANCELLED, restarts=1)
    assert found.resume() == 76
    assert "has ended since: CANCELLED" in found.said[0]
    assert found.slurm.requeued == []
    assert found.resume(anyway=True) == 75
    assert found.slurm.requeued == ["100"]


def test_a_held_job_is_told_with_what_releases_it(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1), REQUEUED, state=JobState.PENDING, held=True, reason="JobHeldAdmin")
    assert found.resume() == 75
    assert "`scontrol release 100`" in found.said[0]


def test_a_job_that_slurm_has_forgotten_must_be_submitted_again(tmp_path: Path) -> None:
    found = scene(tmp_path, started(1), ended(1), REQUEUED)
    found.slurm.jobs.clear()
    assert found.resume() == 76
    assert "submit it again" in found.said[0]


def test_outside_slurm_the_line_to_start_it_again_is_told(tmp_path: Path) -> None:
    local = AttemptStarted(1, "local", ("torchrun", "train.py"), "node1", None, None, None, None)
    found = scene(tmp_path, local, ended(1, "stop"), DecisionCarriedOut(1, "nothing to do"))
    assert found.resume() == 76
    assert found.said[-1] == "start it again to go on: srun-resilient torchrun train.py"


def test_the_limits_that_the_user_chose_hold_here_too(tmp_path: Path) -> None:
    crashed: list[Record] = [
        started(1),
        resumed(1, 0),
        ended(1, "requeue", Cause.CRASHED),
        REQUEUED,
        started(2),
        resumed(2, 0),
    ]
    for limit, code in ((2, 76), (3, 75)):
        found = scene(tmp_path / str(limit), *crashed, **FAILED, restarts=1)
        found.run.attempt(2).mkdir(parents=True)
        write_plan(found.run.plan(2), replace(PLAN, limits=Limits(attempts_without_progress=limit)))
        assert found.resume() == code, found.said
