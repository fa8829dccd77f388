"""`slurm-resilience triage` on folders of files and on runs told by hand, without Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_resilience.cli import triage_watch
from slurm_resilience.cli.main import cli
from slurm_resilience.cli.triage import triage
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, write_agent_record
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import Cause
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.supervisor.job_output import remember_output
from slurm_resilience.supervisor.output import Output
from tests.unit.cli.told_runs import ended, own, started, tell

PEER = "[rank{0}]: RuntimeError: Connection closed by peer [10.0.0.1]:3\n"
BUG = """[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 8, in <module>
[rank1]:     step()
[rank1]: IndexError: list index out of range
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """One bug on rank 1, and 30 ranks that saw it die."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(32):
        (folder / f"rank_{rank}.log").write_text("step 1\n" + (BUG if rank == 1 else PEER.format(rank)))
    return folder


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(triage, ["--no-slurm", *map(str, arguments)])


def told(*arguments: object, code: int = 0) -> dict[str, Any]:
    answer = asked("--json", *arguments)
    assert answer.exit_code == code, answer.output
    value: dict[str, Any] = json.loads(answer.stdout)
    return value


def test_the_report_says_what_where_first_and_what_to_do_in_few_lines(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs.parent)
    lines = asked("--width=120", "logs").stdout.splitlines()
    assert len(lines) <= 25
    assert lines[0] == "logs: the program raised IndexError"
    text = "\n".join(lines)
    for words in (
        "cause  crashed",
        "first  rank 1",
        "said  logs/rank_1.log:5: IndexError: list index out of range",
        "×31",
        "retry  a retry meets the same end",
    ):
        assert words in text


def test_the_same_for_programs(logs: Path) -> None:
    value = told(logs)
    assert (value["format"], value["cause"], value["first"]["rank"]) == (1, "crashed", 1)
    assert value["quotes"][0]["line"] == 5
    assert value["remedy"]["retry_helps"] is False
    assert {
        "about",
        "title",
        "sentence",
        "sure",
        "sure_because",
        "follows",
        "others",
        "silent_nodes",
        "verdict",
    } <= set(value)
    assert json.dumps(value) == json.dumps(told(logs))


def test_a_healthy_log_leaves_with_1(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("step 1 loss 0.3\n")
    assert told(tmp_path, code=1)["cause"] is None
    assert "nothing names a cause" in asked(tmp_path).stdout


def test_what_is_not_there_leaves_with_78_and_a_sentence(tmp_path: Path) -> None:
    answer = asked(tmp_path / "none.log")
    assert answer.exit_code == 78
    assert f"{tmp_path / 'none.log'}: there is no such file or directory" in answer.stderr
    assert asked("4711").exit_code == 78
    assert asked().exit_code == 2


def test_nothing_is_cut_without_saying_so(tmp_path: Path) -> None:
    for rank in range(9):
        text = f"[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]: Own{'abcdefghi'[rank]}Error: bad\n"
        (tmp_path / f"rank_{rank}.log").write_text(text)
    short, full = asked(tmp_path).stdout, asked("--all", tmp_path).stdout
    assert "more (--all)" in short
    assert "more (--all)" not in full
    assert full.count("Error") > short.count("Error")


def test_control_characters_of_a_log_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("OSError: [Errno 28] No space left on device: '\x1b]0;x\x07\x1b[2J'\n")
    assert "\x1b" not in asked(tmp_path).stdout
    assert "\x07" not in asked(tmp_path).stdout


def a_run(folder: Path, cause: Cause = Cause.CRASHED) -> Path:
    run = tell(folder / "run", started(1), ended(1, cause=cause), started(2))
    run.attempt(1).mkdir(parents=True)
    record = AgentRecord(0, "node1", 1, 5.0, Outcome.FAILED, command_code=1, why="the command left with 1", ended_s=9.0)
    write_agent_record(run.agent_record(1, 0), record)
    run.rank_error(1, 3).write_text("Traceback (most recent call last):\n  File 'x'\nKeyError: 'lr'\n")
    return run.path


def test_of_a_run_the_newest_ended_attempt_is_told(tmp_path: Path) -> None:
    value = told(a_run(tmp_path))
    assert value["about"].startswith("attempt 1 of run ")
    assert (value["cause"], value["first"]["rank"]) == ("crashed", 3)
    assert value["verdict"]["by"] == "the run's journal"
    assert value["verdict"]["decision"] == "requeue"


def test_the_journals_word_is_quoted_where_the_lines_say_something_else(tmp_path: Path) -> None:
    value = told(a_run(tmp_path, Cause.PREEMPTED))
    assert (value["cause"], value["sure"]) == ("preempted", "certain")
    assert "KeyError" in value["differs"]


def test_an_attempt_that_nobody_concluded_is_diagnosed_now(tmp_path: Path) -> None:
    value = told(a_run(tmp_path), "--attempt=2")
    assert (value["cause"], value["sure"]) == ("supervisor died", "likely")
    assert "nobody has told how this attempt ended" in value["notes"][0]
    assert asked(tmp_path / "run", "--attempt=7").exit_code == 78


def test_a_run_that_is_alive_is_said_to_run(tmp_path: Path) -> None:
    path = a_run(tmp_path)
    own(RunDirectory(path), 2)
    value = told(path, "--attempt=2", code=1)
    assert (value["cause"], value["notes"]) == (None, ["this attempt is still running"])


def test_an_exception_that_a_program_printed_and_lived_through_is_not_blamed(tmp_path: Path) -> None:
    steps = [f"step {step} loss 0.{step}\n" for step in range(9)]
    path = tmp_path / "job.out"
    path.write_text("".join([*steps[:4], BUG.replace("[rank1]: ", ""), *steps[4:]]))
    value = told(path, code=1)
    assert (value["cause"], len(value["others"])) == (None, 1)
    path.write_text("".join([*steps, BUG.replace("[rank1]: ", ""), "wandb: synced 3 files\n"]))
    assert told(path)["cause"] == "crashed"


def test_the_output_that_an_attempt_wrote_down_is_read_from_where_it_began(tmp_path: Path) -> None:
    path = a_run(tmp_path)
    RunDirectory(path).rank_error(1, 3).unlink()
    before = "OSError: [Errno 28] No space left on device\n"
    output = tmp_path / "slurm-100.out"
    output.write_text(f"{before}{BUG}")
    remember_output(RunDirectory(path), 1, Output(output, len(before)))
    value = told(path)
    assert (value["title"], value["first"]["rank"]) == ("the program raised IndexError", 1)
    assert value["others"] == []


def test_a_jobs_output_is_found_by_its_number_and_names_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_run(tmp_path)
    (tmp_path / "slurm-100.out").write_text(f"srun-resilient: attempt 1 of run {path} (batch), from the beginning\n")
    monkeypatch.chdir(tmp_path)
    assert told("100")["about"] == f"attempt 1 of run {path} (job 100)"


def test_a_job_without_a_run_is_told_by_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train-4711.out").write_text(BUG)
    (tmp_path / "train-47110.out").write_text("OSError: [Errno 28] No space left on device\n")
    monkeypatch.chdir(tmp_path)
    value = told("4711")
    assert (value["about"], value["title"]) == ("job 4711", "the program raised IndexError")


def test_it_is_listed_and_explains_itself() -> None:
    answer = CliRunner().invoke(cli, ["triage", "--help"])
    assert answer.exit_code == 0
    for words in ("RUN|JOB|FILES", "Exit codes:", "--watch", "--no-slurm"):
        assert words in answer.output


class Ends:
    """A clock on which the run ends, or somebody presses Ctrl-C, while the watch sleeps."""

    def __init__(self, deed: Any) -> None:
        self.time_s, self.deed = 0.0, deed

    def now_s(self) -> float:
        return 1_800_000_000.0 + self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        self.deed(self.time_s)


def watching(monkeypatch: pytest.MonkeyPatch, deed: Any, *arguments: object) -> Result:
    monkeypatch.setattr(triage_watch, "SystemClock", lambda: Ends(deed))
    return asked("--watch", "--every=10", *arguments)


def test_a_watch_tells_trouble_as_it_comes_and_the_account_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path)
    output = tmp_path / "slurm-100.out"
    output.write_text("step 1\n")
    remember_output(RunDirectory(run), 2, Output(output, 0))

    def deed(time_s: float) -> None:
        if time_s == 20:
            output.write_text(output.read_text() + BUG)
        if time_s == 400:
            Journal(RunDirectory(run)).append(ended(2, cause=Cause.CRASHED))

    answer = watching(monkeypatch, deed, run)
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert "trouble: a process was ended by an exception: IndexError: list index out of range" in lines[0]
    assert "quiet: no output for" in lines[1]
    assert lines[2].startswith("attempt 2 of run")


def test_ctrl_c_ends_a_watch_in_order(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deed(time_s: float) -> None:
        if time_s >= 600:
            raise KeyboardInterrupt

    answer = watching(monkeypatch, deed, "--json", "--silent-after=60", logs)
    assert answer.exit_code == 0
    alarms = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [alarm["alarm"] for alarm in alarms] == ["trouble", "quiet"]
    assert all(alarm["format"] == 1 for alarm in alarms)
