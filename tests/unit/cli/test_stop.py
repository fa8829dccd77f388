from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_resilience.cli.resume import resume
from slurm_resilience.cli.stop import stop
from slurm_resilience.manifest.records import AttemptStarted, DecisionCarriedOut, Record, StopAsked, TrainingFinished
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.unit.cli.told_runs import DEAD, ELSEWHERE, ended, own, saved, started, tell


@pytest.fixture(autouse=True)
def _no_slurm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")


def ask(run: RunDirectory, *options: str, code: int = 0) -> str:
    result = CliRunner().invoke(stop, [str(run.path), *options])
    assert result.exit_code == code, result.output
    return result.output


def test_a_running_attempt_finds_the_stop_file_and_the_user_learns_how_to_go_on(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1)
    text = ask(run)
    assert run.stop_file.is_file()
    assert text.startswith(f"attempt 1 of run {run.path} is asked to save and stop, and not to go on\n")
    assert "to go on later, submit its batch script again" in text


def bare(attempt: int) -> AttemptStarted:
    return AttemptStarted(attempt, "bare", ("train.py",), "node1", None, None, None, None)


def test_a_training_without_a_supervisor_is_not_said_to_be_asked_but_what_it_hears_is_said(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", bare(1))
    own(run, 1, job=None)
    text = ask(run, code=78)
    assert not run.stop_file.exists()
    assert f"`kill -USR1 {os.getpid()}` makes all its ranks save and stop" in text


def test_a_training_without_a_supervisor_that_is_over_died_of_nothing_and_is_started_again_by_hand(
    tmp_path: Path,
) -> None:
    run = tell(tmp_path / "run", bare(1), saved(7, 1), StopAsked(1, "WARNING", "SIGUSR1 came"))
    sentence = (
        "attempt 1 was started without srun-resilient and has stopped (SIGUSR1 came): started again in the same way, "
        "it goes on from step 7\n"
    )
    assert ask(run) == f"nothing to stop: {sentence}"
    before = run.journal.read_bytes()
    found = CliRunner().invoke(resume, [str(run.path)])
    assert (found.exit_code, found.output) == (76, sentence)
    assert run.journal.read_bytes() == before


def test_asking_twice_says_so_and_changes_nothing(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1)
    ask(run)
    before = run.stop_file.stat()
    assert "has been asked to stop already" in ask(run)
    assert run.stop_file.stat() == before


def test_a_dry_run_only_says_what_it_would_do(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1)
    assert f"would be asked to stop, by {run.stop_file}" in ask(run, "--dry-run")
    assert not run.stop_file.exists()


def test_an_attempt_on_another_host_is_asked_and_the_doubt_is_said(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1, **ELSEWHERE)
    assert "whether it is alive can't be told from here" in ask(run)
    assert run.stop_file.exists()


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([], "nothing to stop: no attempt has started yet"),
        ([started(1), TrainingFinished(1, 50), ended(1, "finish")], "nothing to stop: the run is finished"),
        ([started(1), saved(10, 1), ended(1, "stop")], "nothing to stop: the run does not go on by itself"),
    ],
)
def test_where_nothing_runs_there_is_nothing_to_stop(tmp_path: Path, records: list[Record], sentence: str) -> None:
    run = tell(tmp_path / "run", *records)
    assert sentence in ask(run)
    assert not run.stop_file.exists()


def test_an_attempt_that_died_is_not_asked(tmp_path: Path) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1, **DEAD)
    assert f"died without a word: nobody has told its end (`slurm-resilience resume {run.path}`)" in ask(run)
    assert not run.stop_file.exists()


@pytest.mark.parametrize("decision", ["requeue", "leave"])
def test_a_job_that_waits_in_the_queue_has_to_be_cancelled_there(tmp_path: Path, decision: str) -> None:
    run = tell(tmp_path / "run", started(1), ended(1, decision), DecisionCarriedOut(1, "scontrol requeue 100"))
    assert "`scancel 100` ends that" in ask(run, code=78)
    assert not run.stop_file.exists()


def test_a_directory_that_takes_no_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tell(tmp_path / "run", started(1))
    own(run, 1)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slurm_resilience.durable_file.replace_durably", full)
    assert "can't be written: No space left on device" in ask(run, code=78)
