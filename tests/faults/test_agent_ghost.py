"""Agents whose job goes on elsewhere, and agents whose time moves: with real processes, without Slurm."""

from __future__ import annotations

import time

import pytest

from slurm_resilience.errors import Fenced
from slurm_resilience.launch.end_of_time import EndOfTime, write_end_of_time
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.attempt import begin_attempt
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause, CheckpointCommitted, Part, SaveReason, checkpoint_id
from slurm_resilience.process_identity import Liveness
from slurm_resilience.requeue.decision import Stop, Way
from slurm_resilience.requeue.limits import Limits
from slurm_resilience.supervisor.ending import Ending, Seen
from tests.faults.agent_scene import AgentScene, scene, wait_until
from tests.faults.fake_slurm import FakeClock, FakeSlurm, running
from tests.faults.test_agent_stop import FOREIGN, LIBRARY, started_library

__all__ = ["scene"]

# A rank that finds out by itself: the journal refuses what it wants to commit, and the library leaves with that code.
REFUSED = LIBRARY.replace(
    "    while not stop.asked():\n",
    '    while not (scene / "refused").exists():\n',
).replace("    say(RankPhase.SAVING, step)\n", "    say(RankPhase.FAILED, step); sys.exit(79)\n")


def begin_another(scene: AgentScene, number: int) -> None:
    """As a supervisor elsewhere does it: once it has begun, its plan is written."""
    path = scene.run.plan(number)
    path.parent.mkdir(parents=True)
    path.write_bytes(scene.run.plan(1).read_bytes())


def begin(scene: AgentScene, restarts: int) -> None:
    begin_attempt(
        scene.run,
        mode="batch",
        command=("train",),
        job="7",
        restart_count=restarts,
        cluster="c",
        nodes=None,
        liveness_by_slurm=lambda _: Liveness.UNKNOWN,
    )


def test_a_newer_attempt_ends_a_ghost_which_leaves_with_79_and_says_why(scene: AgentScene):
    agent = started_library(scene)
    scene.run.attempt(2).mkdir(parents=True)  # one that died before its plan was written is none
    begin_another(scene, 3)
    record = scene.end(agent, Outcome.STOPPED, 79)
    assert (record.stop_reason, record.stop_because) == ("FENCED", "attempt 3 of the run has begun")
    assert record.why is not None
    assert "ghost" in record.why
    assert scene.said("reason") == "FENCED"  # the ranks are told, too: they save nothing


def test_an_older_attempt_and_our_own_are_none_to_flee_from(scene: AgentScene):
    begin = scene.run.plan(0)
    begin.parent.mkdir(parents=True)
    begin.write_text("{}")
    agent = started_library(scene)
    time.sleep(1.5)
    scene.run.stop_file.touch()
    assert scene.end(agent, Outcome.STOPPED, 75).stop_reason == "OPERATOR"


def test_a_ghost_that_knows_nothing_of_us_is_sent_term_and_then_killed(scene: AgentScene):
    agent = scene.start(scene.script(FOREIGN))  # it ends only when it is told that it is enough
    scene.wait_for("ready")
    begin_another(scene, 2)
    scene.wait_for("heard", "SIGTERM")
    scene.end(agent, Outcome.STOPPED, 79)


def test_a_rank_that_the_journal_refuses_makes_the_agent_leave_with_79(scene: AgentScene):
    agent = scene.start(scene.script(REFUSED))
    scene.wait_for("stepping-0")
    (scene.folder / "refused").touch()
    assert scene.end(agent, Outcome.STOPPED, 79).stop_reason == "FENCED"


def test_the_journal_refuses_a_ghosts_checkpoint(scene: AgentScene):
    journal = Journal(scene.run)
    journal.create("ghosts")
    for restarts in (0, 1):
        begin(scene, restarts)
    name = checkpoint_id(10, 1)
    late = CheckpointCommitted(name, 10, 1, SaveReason.PERIODIC, 1, (Part(0, "part", 1, "x"),), 0.1)
    with pytest.raises(Fenced, match="attempt 2 has started"):
        journal.append(late, fence=1)
    journal.append(CheckpointCommitted(checkpoint_id(10, 2), 10, 2, SaveReason.PERIODIC, 1, late.parts, 0.1), fence=2)


def test_a_ghosts_supervisor_does_nothing_to_the_job_that_runs_again(scene: AgentScene):
    journal = Journal(scene.run)
    journal.create("ghosts")
    for restarts in (0, 1):
        begin(scene, restarts)
    slurm, clock = FakeSlurm({"7": running(restarts=1)}), FakeClock()
    ending = Ending(scene.run, journal, slurm, clock, Limits(), lambda _: Way.REQUEUE, lambda _: None, 2000.0)
    conclusion = ending.conclude(1, Seen(1, (), False, 2, None))
    assert conclusion.cause is Cause.FENCED
    assert isinstance(conclusion.decision, Stop)
    assert (slurm.requeued, slurm.cancelled, slurm.submitted) == ([], [], {})


def test_a_limit_that_is_lowered_is_noticed_while_the_training_runs(scene: AgentScene):
    agent = started_library(scene, end_s=time.time() + 10000)
    write_end_of_time(scene.run.end_of_time(1), EndOfTime(time.time() + 1000, 2000))
    record = scene.end(agent, Outcome.STOPPED, 75)
    assert (record.stop_reason, record.signals) == ("TIME_LIMIT", ())
    assert "the end of the job's time has moved" in scene.complaints


def test_a_limit_that_is_raised_lets_the_training_go_on(scene: AgentScene):
    moved = "the end of the job's time has moved"
    path = scene.run.end_of_time(1)
    agent = started_library(scene, end_s=time.time() + 10000)
    stop_s = time.time() + 15  # later than it takes to be raised again, on a busy machine too
    write_end_of_time(path, EndOfTime(stop_s + 60, 60))
    wait_until(lambda: scene.complaints.count(moved) == 1, "the agent's word that its time is short")
    write_end_of_time(path, EndOfTime(stop_s + 10000, 60))
    wait_until(lambda: scene.complaints.count(moved) == 2, "the agent's word that it is not")
    time.sleep(max(0.0, stop_s + 1 - time.time()))
    assert agent.poll() is None
    scene.run.stop_file.touch()
    assert scene.end(agent, Outcome.STOPPED, 75).stop_reason == "OPERATOR"


def test_a_node_whose_clock_is_an_hour_behind_stops_in_time(scene: AgentScene):
    # The job began, by the controller's clock, an hour in this node's future: the end is nearer than the clock says.
    start_s = time.time() + 3600
    agent = scene.start(scene.script(LIBRARY), start_s=start_s, end_s=start_s + 50, stop_before_end_s=60.0)
    assert scene.end(agent, Outcome.STOPPED, 75).stop_reason == "TIME_LIMIT"
    assert "behind the controller's" in scene.complaints


def test_an_end_of_time_that_nobody_understands_is_told_and_harms_nothing(scene: AgentScene):
    path = scene.run.end_of_time(1)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    agent = started_library(scene)
    wait_until(lambda: f"{path} can't be read" in scene.complaints, "the complaint")
    scene.run.stop_file.touch()
    scene.end(agent, Outcome.STOPPED, 75)
