"""A chain whose supervisors die anywhere: never two successors, never none where the run goes on, never one where not.

The child dies at every line of what queues a successor and of what ends an attempt; then the next one comes, as it
would: the successor's own supervisor, `resume` or the deputy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from slurm_resilience.manifest.agent_record import Outcome
from slurm_resilience.manifest.attempt import release
from slurm_resilience.manifest.records import TrainingFinished
from slurm_resilience.slurm.client import JobState
from tests.crash.die_at_line import die_at_line
from tests.faults.chain_scene import DIED, KeptSlurm, Link, make_link
from tests.faults.fake_slurm import running
from tests.faults.test_ending import World


def sweep(folder: Path, arrange: Callable[[Link], None], act: Callable[[Link], object]) -> list[Link]:
    """What `act` leaves behind when it dies at each of its lines."""
    first = make_link(folder / "first")
    arrange(first)
    first.slurm.keep()
    left: list[Link] = []
    died = True
    while died:
        copy = folder / f"{len(left)}"
        shutil.copytree(folder / "first", copy)
        world = World(copy)
        world.number, world.slurm = 1, KeptSlurm(copy)
        link = Link(world, world.slurm)
        link.slurm.remember()
        died = die_at_line(len(left) + 1, partial(act, link), within=SWEPT)  # type: ignore[arg-type]
        link.slurm.remember()
        left.append(link)
    assert len(left) > 20
    return left


PACKAGE = Path(__file__).parents[2] / "slurm_resilience"
SUPERVISOR = PACKAGE / "supervisor"
SWEPT = [
    SUPERVISOR / "succession.py",
    SUPERVISOR / "deed.py",
    SUPERVISOR / "ending.py",
    Path(__file__).with_name("chain_scene.py"),
]
"""Between any two of these lines lies at most one deed: a word to Slurm or a line of the journal, which has its own
sweep. KeptSlurm's lines are among them: what was done and not answered."""


def test_a_death_at_any_line_of_the_submission_leaves_one_successor_once_the_next_has_looked(tmp_path: Path) -> None:
    for link in sweep(tmp_path, lambda _: None, lambda link: link.make_sure()):
        assert len(link.waiting) <= 1
        link.make_sure()
        assert len(link.waiting) == 1
        assert link.attempt.successor == link.waiting[0].job
        assert len(link.slurm.submitted) == 1


@pytest.mark.parametrize("queued", [True, False])
def test_a_death_at_any_line_of_an_end_that_goes_on_leaves_one_that_goes_on(tmp_path: Path, queued: bool) -> None:
    def arrange(link: Link) -> None:
        if queued:
            link.make_sure()
        link.world.commit(10)
        link.world.agents(Outcome.STOPPED, "TERMINATION")

    for link in sweep(tmp_path, arrange, lambda link: link.conclude()):
        if link.waiting:  # it starts by itself
            link.is_over(JobState.FAILED)
            assert link.start(link.waiting[0].job) is None
        else:  # the controller had been silent since the start, and then this: `resume`, or the deputy
            assert not queued
            link.conclude(DIED)
            assert len(link.waiting) == 1
        assert len(link.slurm.submitted) == 1


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.COMPLETED])
def test_a_death_at_any_line_of_an_end_that_does_not_go_on_lets_nobody_go_on(tmp_path: Path, state: JobState) -> None:
    def arrange(link: Link) -> None:
        link.make_sure()
        if state is JobState.COMPLETED:
            link.world.journal.append(TrainingFinished(1, 100))
        link.world.agents(Outcome.FINISHED if state is JobState.COMPLETED else Outcome.STOPPED, "TERMINATION")
        link.slurm.jobs["7"] = running(state=state, completing=True)

    for link in sweep(tmp_path, arrange, lambda link: link.conclude()):
        link.slurm.jobs["7"] = running(state=state)
        for record in link.waiting:
            assert link.start(record.job) in (0, 76)
        release(link.world.run, 1)
        assert len(link.chain.attempts) == 1
