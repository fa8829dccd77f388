"""The end of the job's time, watched beside a step."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_resilience.launch.end_of_time import EndOfTime, read_end_of_time
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.ladder import Asked, Measured, SlurmTimes
from slurm_resilience.slurm.client import JobRecord, JobRef, JobState
from slurm_resilience.supervisor.time_watch import TimeWatch, end_told_by, watch_time
from tests.faults.fake_slurm import FakeSlurm, running

START_S = 1_000_000.0
"""By the controller's clock."""


@dataclass
class TwoClocks:
    """A wall clock that can be set, and a monotonic one that can't."""

    wall_s: float = START_S
    since_boot_s: float = 500.0

    def now_s(self) -> float:
        return self.wall_s

    def monotonic_s(self) -> float:
        return self.since_boot_s

    def sleep(self, seconds: float) -> None:
        self.wall_s += seconds
        self.since_boot_s += seconds


class Scene:
    """A job of an hour, and what the supervisor tells of it."""

    def __init__(self, folder: Path, *, end_in_s: float = 3600.0, clock: TwoClocks | None = None) -> None:
        self.run = RunDirectory(folder / "run")
        self.run.attempt(1).mkdir(parents=True)
        self.clock = clock or TwoClocks()
        self.slurm = FakeSlurm({"7": running(start_s=START_S, end_s=START_S + end_in_s)})
        self.said: list[str] = []
        watch = watch_time(
            self.run,
            1,
            self.slurm,
            JobRef("7"),
            SlurmTimes(30, 0, START_S + end_in_s, START_S),
            Measured(),
            Asked(),
            restarts=0,
            clock=self.clock,
            say=self.said.append,
        )
        assert watch is not None
        self.watch: TimeWatch = watch

    def becomes(self, **changed: object) -> None:
        self.slurm.jobs["7"] = replace(self.slurm.jobs["7"], **changed)  # type: ignore[arg-type]

    def live(self, seconds: float) -> None:
        """Every second a look, and every question gets its answer before the next."""
        for _ in range(int(seconds)):
            self.watch.tend()
            self.watch.settle(30.0)
            self.watch.tend()
            self.clock.sleep(1.0)

    @property
    def told(self) -> EndOfTime | None:
        path = self.run.end_of_time(1)
        return read_end_of_time(path.read_bytes()) if path.exists() else None


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_where_nothing_changes_nothing_is_written(scene: Scene) -> None:
    scene.live(3600)
    assert scene.told is None
    assert scene.said == []


def test_a_raised_limit_is_told_before_the_stop_would_have_begun(scene: Scene) -> None:
    scene.live(3600 - 60 - 30)
    scene.becomes(end_s=START_S + 7200)
    scene.live(29)
    assert scene.told == EndOfTime(START_S + 7200, 60.0)
    assert scene.watch.end_s == START_S + 7200
    assert "the job's time limit was changed" in scene.said[0]


def test_a_limit_lowered_to_half_is_told_in_time(scene: Scene) -> None:
    scene.becomes(end_s=START_S + 1800)
    scene.live(1800 - 60)
    assert scene.told == EndOfTime(START_S + 1800, 60.0)


def test_the_lead_grows_with_a_time_that_was_too_short_for_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, end_in_s=120.0)
    scene.becomes(end_s=START_S + 3600)
    scene.live(90)
    assert scene.told == EndOfTime(START_S + 3600, 60.0)


def test_a_limit_that_is_changed_twice_is_told_twice(scene: Scene) -> None:
    scene.becomes(end_s=START_S + 7200)
    scene.live(700)
    scene.becomes(end_s=START_S + 5000)
    scene.live(700)
    assert scene.told == EndOfTime(START_S + 5000, 60.0)


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0])
def test_a_clock_that_is_set_meanwhile_changes_nothing(scene: Scene, jump_s: float) -> None:
    scene.live(1000)
    scene.clock.wall_s += jump_s
    scene.live(2600 - 60 - 30)
    scene.becomes(end_s=START_S + 7200)
    scene.live(29)  # the look before the stop is still where it was
    assert scene.told is not None


def test_a_clock_that_lags_an_hour_does_not_make_the_last_look_come_late(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=TwoClocks(wall_s=START_S - 3600))
    scene.live(3600 - 60 - 30)
    scene.becomes(end_s=START_S + 7200)
    scene.live(29)
    assert scene.told is not None


@pytest.mark.parametrize(
    "record",
    [
        None,
        running(end_s=None),
        running(end_s=9.0, preempted_s=5.0),  # in grace: EndTime is the end of it
        running(end_s=9.0, restarts=1),  # queued again: it is the next attempt's
        running(end_s=9.0, completing=True),
        running(end_s=9.0, state=JobState.UNKNOWN),
        running(end_s=9.0, state=JobState.PENDING),
    ],
)
def test_a_record_of_anything_but_a_running_job_says_nothing_about_its_limit(record: JobRecord | None) -> None:
    assert end_told_by(record, 0) is None


def test_the_record_of_a_running_job_says_when_it_ends() -> None:
    assert end_told_by(running(end_s=9.0, restarts=2), 2) == 9.0


def test_a_controller_that_does_not_answer_is_mentioned_once_and_asked_again(scene: Scene) -> None:
    scene.slurm.silent_for = 3
    scene.becomes(end_s=START_S + 7200)
    scene.live(3400)
    assert len([words for words in scene.said if "can't be asked" in words]) == 1
    assert scene.told == EndOfTime(START_S + 7200, 60.0)


def test_an_end_that_cannot_be_written_is_told_with_the_next_look(scene: Scene) -> None:
    scene.run.attempt(1).rmdir()
    scene.becomes(end_s=START_S + 7200)
    scene.live(700)
    assert "can't be told to the node agents" in scene.said[0]
    scene.run.attempt(1).mkdir()
    scene.live(1200)
    assert scene.told is not None


def test_a_question_without_an_answer_keeps_nobody_waiting(scene: Scene) -> None:
    answer_now = threading.Event()

    def ask() -> JobRecord | None:
        answer_now.wait(30)
        return running(end_s=START_S + 7200)

    scene.watch.ask = ask
    for _ in range(1000):
        scene.watch.tend()
        scene.clock.sleep(1.0)
    assert scene.told is None
    answer_now.set()
    scene.live(1)
    assert scene.told is not None


def test_without_a_job_there_is_nothing_to_watch(scene: Scene) -> None:
    def watch(slurm: FakeSlurm | None, job: JobRef | None) -> TimeWatch | None:
        times, say = SlurmTimes(30, 0, None, None), scene.said.append
        return watch_time(scene.run, 1, slurm, job, times, Measured(), Asked(), restarts=0, clock=scene.clock, say=say)

    assert watch(None, JobRef("7")) is None
    assert watch(scene.slurm, None) is None


def test_an_end_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.watch.times = replace(scene.watch.times, end_s=None)
    scene.live(700)
    assert scene.told == EndOfTime(START_S + 3600, 60.0)
