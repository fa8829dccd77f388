"""A node whose own checks let nothing start there: the run goes on without it. A Slurm that refuses does no harm."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmRejected
from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.records import Cause
from slurm_resilience.slurm.client import JobRef
from slurm_resilience.supervisor.ending import Seen
from tests.faults.chain_scene import make_link
from tests.faults.fake_slurm import FakeSlurm, running
from tests.faults.test_ending import World

REFUSED = Seen(1, (), False, 2, None)


def ails(world: World, node: str, life: str = "7-0", mode: str = "exclude") -> None:
    folder = world.run.path / "exit-notes" / life
    folder.mkdir(parents=True, exist_ok=True)
    note = {"node": node, "mode": mode, "findings": ["gpu-ecc: 3 errors"]}
    (folder / f"{node}.health.json").write_text(json.dumps(note))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.begin()
    return world


def test_the_job_is_queued_again_without_the_node(world: World) -> None:
    ails(world, "n2")
    ails(world, "n1", mode="warn")
    conclusion = world.ending().conclude(1, REFUSED)
    ended, done = world.attempt().ended, world.attempt().carried_out
    assert ended is not None
    assert (ended.cause, ended.decision, ended.exclude) == (Cause.NODE_FAILURE, "requeue", ("n2",))
    counted = "node n2 is unhealthy: gpu-ecc: 3 errors (node failure 1 of 10 since the last progress)"
    assert ended.decision_reason == counted
    assert conclusion.carried_out
    assert world.slurm.requeued == ["7"]
    assert world.slurm.excluded == {"7": frozenset({"n2"})}
    assert done is not None
    assert done.how == "scontrol requeue 7, without n2"


def test_nodes_of_an_earlier_life_are_not_looked_at(world: World) -> None:
    ails(world, "n2", life="7-3")
    world.agents(Outcome.STOPPED, "TERMINATION")
    world.ending().conclude(1, REFUSED)
    assert world.slurm.requeued == ["7"]
    assert world.slurm.excluded == {}


def test_whatever_ended_the_attempt_the_unhealthy_node_is_avoided(world: World) -> None:
    ails(world, "n2")
    world.slurm.jobs["7"] = running(preempted_s=900.0)
    assert world.ending().conclude(1, REFUSED).cause is Cause.PREEMPTED
    assert world.slurm.excluded == {"7": frozenset({"n2"})}


def test_a_job_that_slurm_has_queued_again_by_itself_is_kept_from_it_too(world: World) -> None:
    ails(world, "n2")
    FakeSlurm.requeue(world.slurm, JobRef("7"))
    conclusion = world.ending().conclude(1, REFUSED)
    assert conclusion.carried_out
    assert world.slurm.requeued == ["7"]
    assert world.slurm.excluded == {"7": frozenset({"n2"})}


def test_where_slurm_will_not_exclude_it_the_job_is_queued_again_all_the_same(world: World) -> None:
    class Stubborn(FakeSlurm):
        def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
            raise SlurmRejected("Invalid node name specified")

    ails(world, "n2")
    world.slurm.__class__ = Stubborn
    assert world.ending().conclude(1, REFUSED).carried_out
    assert world.slurm.requeued == ["7"]
    done = world.attempt().carried_out
    assert done is not None
    assert done.how == "scontrol requeue 7; n2 could not be excluded"
    assert any("job 7 may get n2 again: Invalid node name" in said for said in world.said)


def test_a_question_that_dies_of_the_requeues_own_sigterm_is_asked_again(world: World) -> None:
    class Interrupted(FakeSlurm):
        tries = 0

        def exclude_nodes(self, job: JobRef, nodes: Collection[str]) -> None:
            Interrupted.tries += 1
            if Interrupted.tries == 1:
                raise SlurmRejected("scontrol left with 143: no message")
            super().exclude_nodes(job, nodes)

    ails(world, "n2")
    world.slurm.__class__ = Interrupted
    assert world.ending().conclude(1, REFUSED).carried_out
    assert world.slurm.excluded == {"7": frozenset({"n2"})}


def test_a_successor_is_kept_from_the_node(tmp_path: Path) -> None:
    link = make_link(tmp_path)
    link.make_sure()
    ails(link.world, "n2")
    assert link.conclude(REFUSED).carried_out
    assert link.slurm.excluded == {"1000": frozenset({"n2"})}
    assert link.slurm.requeued == []
    assert link.attempt.carried_out is not None
    assert link.attempt.carried_out.how == "job 1000 is queued and goes on, without n2"


def test_a_run_that_is_given_up_excludes_nothing(world: World) -> None:
    ails(world, "n2")
    world.agents(Outcome.STOPPED, "OPERATOR")
    world.ending().conclude(1, REFUSED)
    ended = world.attempt().ended
    assert ended is not None
    assert (ended.decision, ended.exclude) == ("stop", ())
    assert world.slurm.excluded == {}
