"""The canary's command line: whose option is whose, and the lines that would be run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_resilience.cli.canary import canary
from slurm_resilience.errors import SlurmUnavailable
from slurm_resilience.launch.plan import CommandKind
from slurm_resilience.launch.srun_options import split
from slurm_resilience.rehearsal.canary_job import queue_again_if_preempted
from slurm_resilience.rehearsal.canary_plan import Wanted, environment_of, parts_of
from slurm_resilience.slurm.client import JobRecord, JobRef
from tests.faults.fake_slurm import FakeSlurm, running

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """In a folder of its own; `job`: in a batch job with so many nodes."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")

    def run(*words: str, job: int | None = None) -> Result:
        if job is not None:
            monkeypatch.setenv("SLURM_JOB_ID", "7")
            monkeypatch.setenv("SLURM_JOB_NUM_NODES", str(job))
            monkeypatch.setenv("ENVIRONMENT", "BATCH")
        return CliRunner().invoke(canary, list(words))

    return run


def lines(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [shlex.split(line) for line in result.output.splitlines()]


def test_one_node_is_tried_before_all_of_them_with_the_long_jobs_words(run: Run) -> None:
    one, all_ = lines(
        run("--dry-run", "--nproc-per-node", "2", "-p", "gpu", "--mem=0", "torchrun", "train.py", "--steps=9", job=4)
    )
    assert one[:3] == [sys.executable, "-m", "slurm_resilience.cli.srun_resilient"]
    assert one[-8:] == ["2", "-p", "gpu", "--mem=0", "--nodes=1", "--", "torchrun", "train.py", "--steps=9"][-8:]
    assert (
        all_[-8:] == ["--nproc-per-node", "2", "-p", "gpu", "--mem=0", "--", "torchrun", "train.py", "--steps=9"][-8:]
    )
    for line in (one, all_):
        assert "--no-requeue" in line
        assert "--max-crashes=1" in line


def test_a_job_of_one_node_has_one_part(run: Run) -> None:
    assert len(lines(run("--dry-run", "python", "train.py", job=1))) == 1


def test_without_slurm_there_is_one_node_and_none_of_sruns_options(run: Run) -> None:
    [line] = lines(run("--dry-run", "--mode=local", "python", "train.py"))
    assert line[-4:] == ["--mode=local", "--", "python", "train.py"]


@pytest.mark.parametrize(
    "option",
    [
        "--publish=s3://b/r",
        "--continue=chain",
        "--preflight",
        "--max-crashes=7",
        "--from-scratch",
        "--on-preflight=stop",
    ],
)
def test_what_is_only_for_the_long_job_is_left_out(run: Run, option: str) -> None:
    for line in lines(run("--dry-run", option, "python", "train.py", job=2)):
        assert option not in line


def test_a_plain_command_has_the_tasks_of_one_node_there(run: Run) -> None:
    one, all_ = lines(run("--dry-run", "--plain", "-n", "8", "python", "train.py", job=4))
    assert one[-5:] == ["--nodes=1", "--ntasks=2", "--", "python", "train.py"]
    assert all_[-5:] == ["-n", "8", "--", "python", "train.py"]


def test_the_runs_lie_beside_the_run_and_never_in_an_older_canarys(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.canary" / "7-0").mkdir(parents=True)
    [line] = lines(run("--dry-run", "--run-dir=train", "python", "train.py", job=1))
    assert f"--run-dir={tmp_path}/train.canary/7-0-2/one-node" in line


def test_a_dry_run_makes_nothing(run: Run, tmp_path: Path) -> None:
    lines(run("--dry-run", "python", "train.py", job=2))
    assert list(tmp_path.iterdir()) == []


def test_help_is_ours_before_the_command_and_the_trainings_behind_it(run: Run) -> None:
    assert "Exit codes:" in run("--help").output
    assert "Exit codes:" in run("--steps=3", "--help").output
    assert lines(run("--dry-run", "python", "train.py", "--help", job=1))[0][-1] == "--help"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--steps=3"], "there is no command to run"),
        (["--steps=0", "python", "t.py"], "--steps"),
        (["--patience=soon", "python", "t.py"], "--patience"),
    ],
)
def test_a_wrong_line_is_refused_in_a_sentence(run: Run, words: list[str], sentence: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert sentence in done.output


def test_the_long_jobs_environment_does_not_lead_the_canary_into_its_run() -> None:
    long_jobs = {"SLURM_RESILIENCE_RUN_DIR": "/runs/r", "SLURM_RESILIENCE_CONTINUE": "chain", "PATH": "/bin"}
    assert environment_of(long_jobs) == {"PATH": "/bin"}


def test_more_nodes_than_tasks_leave_a_task_for_one_node(tmp_path: Path) -> None:
    line = split(["-n", "2", "./train"])
    one, _ = parts_of(Wanted(line, CommandKind.TASK, 4, 2, local=False), tmp_path, "python")
    assert "--ntasks=1" in one.argv


@pytest.mark.parametrize(
    ("record", "again"),
    [
        (running(preempted_s=900.0), True),
        (running(preempted_s=900.0, requeue=False), False),
        (running(), False),
    ],
)
def test_a_canary_that_is_preempted_is_queued_again(record: JobRecord, again: bool) -> None:
    slurm = FakeSlurm({"7": record})
    said: list[str] = []
    assert queue_again_if_preempted(slurm, JobRef("7"), said.append) is again
    assert slurm.requeued == (["7"] if again else [])


def test_a_controller_that_is_silent_ends_no_canary_in_a_traceback() -> None:
    slurm = FakeSlurm({"7": running(preempted_s=900.0)}, silent_for=1)
    said: list[str] = []
    assert not queue_again_if_preempted(slurm, JobRef("7"), said.append)
    assert said == [f"job 7 can't be queued again: {SlurmUnavailable('the controller is down')}"]
