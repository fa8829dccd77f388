"""A batch job that starts while the storage says no: nobody would start it again, so it asks for a while."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.clock import SystemClock
from slurm_resilience.errors import ConfigurationError, ManifestUnavailable
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.slurm.facts import job_facts
from slurm_resilience.supervisor.supervise import Supervisor
from slurm_resilience.supervisor.surroundings import Mode, Shape
from tests.faults.fake_slurm import FakeSlurm, running
from tests.unit.supervisor.requests import request

NOWHERE = "x" * 300
"""Whoever follows a link to it is refused: ENAMETOOLONG, as it might be ESTALE or EIO."""


class Scene:
    """A job whose srun fails at once, and whose storage works again as soon as somebody complains about it."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDirectory(folder / "run")
        self.slurm = FakeSlurm({"7": running()})
        self.said: list[str] = []
        self.mend: Callable[[], object] = lambda: None
        (folder / "srun").write_text("#!/bin/sh\nexit 1\n")
        (folder / "srun").chmod(0o755)
        self._path = f"{folder}:{os.environ['PATH']}"

    def say(self, text: str) -> None:
        self.said.append(text)
        if "again until it answers" in text:
            self.mend()

    def supervise(self, mode: Mode = Mode.BATCH) -> int:
        facts = job_facts({"SLURM_JOB_ID": "7", "ENVIRONMENT": "BATCH", "SLURM_JOB_NUM_NODES": "1"})
        environment = {**os.environ, "PATH": self._path, "SLURM_RESILIENCE_SPANK": "off"}
        supervisor = Supervisor(
            request("--mem=0 python t.py"),
            mode,
            Shape(1, 1, None),
            facts,
            self.slurm,
            SystemClock(),
            environment,
            self.run,
            self.say,
        )
        return supervisor.supervise()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    found = Scene(tmp_path)
    monkeypatch.setenv("PATH", found._path)
    return found


def _link(path: Path) -> Callable[[], object]:
    path.symlink_to(NOWHERE)
    return path.unlink


PLACES: dict[str, Callable[[RunDirectory], Callable[[], object]]] = {
    "the run directory": lambda run: _link(run.path),
    "the lock": lambda run: _link(run.lock.with_name("manifest.lock.by-link")),
    "the attempts' folder": lambda run: _link(run.attempts),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_storage_that_says_no_for_a_moment_ends_no_run(scene: Scene, place: str) -> None:
    if place != "the run directory":
        scene.run.path.mkdir()
        Journal(scene.run).create("run")
    scene.mend = PLACES[place](scene.run)
    assert scene.supervise() == 75, scene.said
    assert scene.slurm.requeued == ["7"]
    newest = Chain.of(Journal(scene.run).read()).newest_attempt
    assert newest is not None
    assert newest.ended is not None


def test_where_a_person_waits_they_are_told_at_once(scene: Scene) -> None:
    scene.run.path.symlink_to(NOWHERE)
    with pytest.raises(ManifestUnavailable):
        scene.supervise(Mode.ALLOCATION)


def test_what_only_a_person_can_change_is_told_at_once(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scene.run = RunDirectory(tmp_path / "file" / "run")
    with pytest.raises(ConfigurationError, match="not available"):
        scene.supervise()
    assert scene.said == []
