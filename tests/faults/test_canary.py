"""A canary with trainings that are played: it finds what is wrong, names the stage, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_resilience.clock import Clock, SystemClock
from slurm_resilience.errors import ManifestUnavailable
from slurm_resilience.rehearsal.canary import Canary
from slurm_resilience.rehearsal.canary_plan import ALL_NODES, ONE_NODE, Part
from slurm_resilience.rehearsal.canary_report import Report, Shown, Verdict
from tests.faults.agent_scene import REPOSITORY, wait_until

PLAYER = Path(__file__).with_name("canary_player.py")
STAGES = ["start", "steps", "stop", "checkpoint", "resume", "steps again", "stop again", "checkpoint again"]


class HastyClock(SystemClock):
    """From when this file is first seen, a second has fifty."""

    def __init__(self, late: Path) -> None:
        self._late = late
        self._since_s: float | None = None

    def monotonic_s(self) -> float:
        now_s = super().monotonic_s()
        if self._since_s is None and self._late.exists():
            self._since_s = now_s
        return now_s if self._since_s is None else self._since_s + 50 * (now_s - self._since_s)


class Scene:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.folder = top / "run.canary" / "local-1"
        self.said: list[str] = []
        self.clock: Clock = SystemClock()
        self.keep = False
        self.patience_s = 200.0
        self.without_library_s: float | None = None
        self.stopped: Callable[[], bool] = lambda: False

    def sing(self, *how: str) -> Report:
        """On one node the training plays the first, on all nodes the second."""
        parts = [self._part(name, way) for name, way in zip((ONE_NODE, ALL_NODES), how, strict=False)]
        return Canary(
            self.folder,
            parts,
            5,
            self.patience_s,
            self.without_library_s,
            self.keep,
            self.clock,
            self.stopped,
            {**os.environ, "PYTHONPATH": str(REPOSITORY)},
            self.said.append,
        ).sing()

    def _part(self, name: str, how: str) -> Part:
        run = self.folder / name.replace(" ", "-")
        return Part(name, run, (sys.executable, str(PLAYER), str(run), how))

    def left_over(self) -> list[str]:
        done = subprocess.run(["pgrep", "-f", str(self.top)], capture_output=True, text=True, check=False)
        return done.stdout.split()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_training_that_stops_saves_and_resumes_passes_on_one_node_and_on_all(scene: Scene) -> None:
    report = scene.sing("well", "well")
    assert report.verdict is Verdict.PASSED, report
    assert [stage.name for stage in report.stages] == [*STAGES, *STAGES]
    assert report.sentence == "the training runs, stops, saves and resumes on one node and on all nodes"
    assert not scene.folder.parent.exists()
    assert len(scene.said) == 2 * len(STAGES)


def test_what_passed_is_kept_where_that_was_asked_for(scene: Scene) -> None:
    scene.keep = True
    assert scene.sing("well").kept
    assert (scene.folder / "one-node" / "manifest.jsonl").exists()


@pytest.mark.parametrize(
    ("how", "stage", "words"),
    [
        ("saves nothing", "checkpoint", "without a checkpoint of the step it stopped after"),
        ("begins anew", "resume", "it began at step 0 although there is a checkpoint of step"),
        ("goes back", "resume", "it went on after step"),
        ("crashes when it resumes", "steps again", "it ended (exit code 1): KeyError: 'momentum'"),
        ("dies when it stops", "stop", "it ended otherwise than it was asked to: the ranks did not stop"),
        ("can't be started", "start", "it ended (exit code 78): srun's --nodes=9, but job 7 has 2 nodes"),
    ],
)
def test_the_first_failure_is_named_with_its_stage_and_its_runs_are_kept(
    scene: Scene, how: str, stage: str, words: str
) -> None:
    report = scene.sing(how, "well")
    assert report.verdict is Verdict.FAILED, report
    last = report.stages[-1]
    assert (last.name, last.shown, last.part) == (stage, Shown.FAILED, ONE_NODE)
    assert words in last.sentence
    assert report.sentence == f"on one node, {stage}: {last.sentence}"
    assert report.kept
    assert (scene.folder / "one.out").exists()


def test_what_fails_on_all_nodes_only_is_told_so(scene: Scene) -> None:
    report = scene.sing("well", "begins anew")
    assert report.verdict is Verdict.FAILED
    assert report.sentence.startswith("on all nodes, resume: ")


@pytest.mark.parametrize(
    ("how", "late", "stage", "words"),
    [
        ("makes no step", "attempts/0001/node-0000.json", "steps", "it did not come to step 5 within 60 s"),
        ("does not stop", "stop", "stop", "it did not stop within 60 s"),
        ("uses no library", "attempts/0001/node-0000.json", "start", "open_run was not called within 60 s"),
    ],
)
def test_nobody_waits_for_ever(
    scene: Scene, how: str, late: str, stage: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_resilience.rehearsal.canary_run.LEAVE_S", 1.0)
    scene.patience_s = 60.0
    scene.clock = HastyClock(scene.folder / "one-node" / late)
    report = scene.sing(how)
    assert (report.stages[-1].name, report.verdict) == (stage, Verdict.FAILED)
    assert words in report.sentence
    wait_until(lambda: not scene.left_over(), "the end of the player")


def test_a_command_without_our_library_is_only_seen_to_run_and_that_is_said(scene: Scene) -> None:
    scene.without_library_s = 2.0
    report = scene.sing("uses no library")
    assert report.verdict is Verdict.PASSED, report
    assert report.sentence.startswith("the training runs on one node; not shown: resume (the command doesn't use")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("finishes early", "give it more steps to do, or the canary fewer than --steps=5"),
        ("is preempted", "the canary's job was ended: job 7 is being preempted"),
    ],
)
def test_what_says_nothing_about_the_training_is_no_failure_of_it(scene: Scene, how: str, words: str) -> None:
    report = scene.sing(how)
    assert report.verdict is Verdict.COULD_NOT_RUN
    assert words in report.sentence


def test_a_signal_ends_the_canary_and_its_training(scene: Scene) -> None:
    scene.stopped = (scene.folder / "one-node" / "attempts" / "0001" / "node-0000.json").exists  # once it is at work
    report = scene.sing("makes no step")
    assert report.verdict is Verdict.COULD_NOT_RUN
    assert report.sentence == "the canary was interrupted by a signal"
    assert not scene.left_over()


def test_a_folder_that_cannot_be_made_is_one_sentence(scene: Scene) -> None:
    scene.folder.parent.touch()
    with pytest.raises(ManifestUnavailable, match="can't be made: Not a directory"):
        scene.sing("well")


def test_the_command_leaves_with_its_verdict_and_prints_it(tmp_path: Path) -> None:
    """A command that srun-resilient can't run, in local mode, through the command line."""
    words = ["canary", "--run-dir", str(tmp_path / "run"), "--json", "--mode=local", "--plain", "/nowhere/train"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    done = subprocess.run(
        [sys.executable, "-m", "slurm_resilience.cli.main", *words],
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 2, done.stderr
    assert '"outcome": "failed"' in done.stdout
    assert "/nowhere/train" in done.stdout
