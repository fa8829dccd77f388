"""Tables that torchrun 2.13 wrote: logs/torchrun-2.13-HOW.log, of a program whose rank 1 fails in some way."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.triage.reading.log_report import LogReport, RankFailure
from slurm_resilience.triage.reading.read_logs import read_logs
from slurm_resilience.triage.reading.torchrun_table import failures_in
from tests.unit.triage.reading.entries import ENTRIES, KILLED, PEER

LOGS = Path(__file__).parent / "logs"
Short = tuple[int, int | None, int | None, str | None, bool]


def read(*names: str) -> LogReport:
    return read_logs([LOGS / f"torchrun-2.13-{name}" for name in names], ENTRIES, workers=0)


def short(failures: tuple[RankFailure, ...] | list[RankFailure]) -> list[Short]:
    return [(one.rank, one.local_rank, one.exitcode, one.signal, one.root) for one in failures]


VICTIM = (0, 0, -15, "SIGTERM", False)


@pytest.mark.parametrize(
    ("log", "failures"),
    [
        ("one-crash.log", [VICTIM, (1, 1, 1, None, True)]),
        ("record-crash.log", [VICTIM, (1, 1, 1, None, True)]),
        ("one-chain.log", [VICTIM, (1, 1, 1, None, True)]),
        ("one-kill.log", [VICTIM, (1, 1, -9, "SIGKILL", True)]),
        ("record-kill.log", [VICTIM, (1, 1, -9, "SIGKILL", True)]),
        ("one-exit3.log", [VICTIM, (1, 1, 3, None, True)]),
        ("two-kill-n0.log", [(0, 0, 1, None, True)]),  # each agent blames its own
        ("two-kill-n1.log", [(1, 0, -9, "SIGKILL", True)]),
        ("two-exit3-n0.log", [(0, 0, 1, None, True)]),
        ("two-exit3-n1.log", [(1, 0, 3, None, True)]),
    ],
)
def test_a_table_says_how_each_rank_ended(log: str, failures: list[Short]) -> None:
    assert sorted(short(read(log).failures)) == sorted(failures)


def test_a_rank_that_left_its_exception_is_quoted(tmp_path: Path) -> None:
    report = read("record-crash.log")
    by_rank = {failure.rank: failure for failure in report.failures}
    assert by_rank[1].message == "ValueError: the data of rank 1 is bad:"
    assert by_rank[1].error_file is not None
    assert by_rank[1].error_file.endswith("/attempt_0/1/error.json")
    assert (by_rank[0].message or "").endswith("GLHF! 🏖️")
    quoted = [event for event in report.events if event.about.rank is not None]
    assert [(event.about.rank, event.known) for event in quoted] == [(0, PEER), (1, None)]
    assert quoted[1].time_s == by_rank[1].time_s


def test_the_lines_of_a_table_are_about_its_ranks() -> None:
    (event,) = [event for event in read("two-kill-n1.log").events if event.known is KILLED]
    assert (event.about.rank, event.about.local_rank, event.about.pid) == (1, 0, 12288)
    assert event.time_s is not None


def test_a_chain_of_exceptions_in_a_table_ends_with_the_last_one() -> None:
    (failure,) = [one for one in read("record-chain.log").failures if one.rank == 1]
    assert failure.message == "RuntimeError: no such shard"


def test_a_table_says_when_in_the_time_of_the_reader() -> None:
    first, second = (read(f"two-kill-{node}.log").failures[0].time_s for node in ("n0", "n1"))
    assert first == second
    assert first is not None


def test_tables_of_two_agents_that_wrote_into_one_file_at_once_are_told_apart(tmp_path: Path) -> None:
    logs = [(LOGS / f"torchrun-2.13-two-kill-n{node}.log").read_text().splitlines() for node in (0, 1)]
    mixed = []
    for at in range(max(map(len, logs))):
        mixed += [f"{task}: {lines[at]}" for task, lines in enumerate(logs) if at < len(lines)]
    path = tmp_path / "slurm-7.out"
    path.write_text("\n".join(mixed))
    failures = read_logs([path], ENTRIES, workers=0).failures
    assert sorted((one.speaker.task, one.rank, one.exitcode) for one in failures) == [(0, 0, 1), (1, 1, -9)]
    assert {one.speaker.job for one in failures} == {"7"}


@pytest.mark.parametrize("keep", range(1, 60, 3))
def test_a_table_that_is_cut_says_what_is_there(tmp_path: Path, keep: int) -> None:
    lines = (LOGS / "torchrun-2.13-one-crash.log").read_text().splitlines()[:keep]
    whole = short(failures_in((LOGS / "torchrun-2.13-one-crash.log").read_text().splitlines()))
    for cut, complete in zip(short(failures_in(lines)), whole, strict=False):
        assert cut[0] == complete[0]
        assert cut[2] in (None, complete[2])


def test_the_place_of_a_failure_is_where_it_stands() -> None:
    failure = read("two-kill-n1.log").failures[0]
    line = (LOGS / "torchrun-2.13-two-kill-n1.log").read_text().splitlines()[failure.place.line - 1]
    assert line == "[0]:"


def test_error_files_of_ranks_are_read_for_what_they_are() -> None:
    report = read("logs/attempt_0")
    files = {(event.speaker.local_rank, Path(event.place.file).name) for event in report.events}
    assert files == {(rank, name) for rank in range(3) for name in ("error.json", "stderr.log")}
    mine = next(event for event in report.events if event.place.file.endswith("1/error.json"))
    assert (mine.text, mine.time_s) == ("ValueError: the data of rank 1 is bad:", 1796037813.0)


def test_an_error_file_that_is_not_whole_is_read_as_a_log(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text('{"message": {"message": "OSError: [Errno 28] No sp')
    assert [event.known and event.known.name for event in read_logs([path], ENTRIES).events] == ["storage.full"]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"message": 3}', '{"message": {}}', '{"message": {"extraInfo": 1}}', "[" * 9999]
)
def test_an_error_file_with_anything_else_in_it_says_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "error.json"
    path.write_text(text)
    assert read_logs([path], ENTRIES).events == ()


def test_our_own_error_files_say_whose_they_are_and_when_they_were_written(tmp_path: Path) -> None:
    folder = tmp_path / "attempts" / "0003"
    folder.mkdir(parents=True)
    path = folder / "error-rank-00012.txt"
    path.write_text(
        'Traceback (most recent call last):\n  File "a", line 1\nOSError: [Errno 28] No space left on device\n'
    )
    (event,) = read_logs([path], ENTRIES).events
    assert (event.speaker.rank, event.speaker.attempt, event.time_s) == (12, 3, path.stat().st_mtime)
    assert event.known is not None


TABLE = """\
============================================================
/home/ann/train/train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-30_11:40:11
  host      : n2
  rank      : 2 (local_rank: 0)
  exitcode  : -9 (pid: 25602)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 25602
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_11:40:11
  host      : n2
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 25604)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
"""As srun-resilient's launcher printed it: the exception's message without its name."""


@pytest.mark.parametrize("prefix", ["", "1: "])
def test_a_table_without_the_line_that_names_the_exception_is_read_too(prefix: str, tmp_path: Path) -> None:
    text = "".join(prefix + line for line in TABLE.splitlines(keepends=True))
    path = tmp_path / "job.out"
    path.write_text(f"step 3 loss 0.1\n\n{text}srun: error: n2: task 1: Exited with exit code 1\n")
    failures = read_logs([path], ENTRIES, workers=0).failures
    assert short(failures) == [(2, 0, -9, "SIGKILL", False), (3, 1, 1, None, True)]
    assert short(failures_in(TABLE.splitlines())) == short(failures)


def test_a_table_whose_only_failure_is_its_root_is_read_without_its_head(tmp_path: Path) -> None:
    begin, end = TABLE.index("[1]:"), TABLE.index("-" * 60 + "\nRoot")
    path = tmp_path / "job.out"
    path.write_text(TABLE[:begin] + "  <NO_OTHER_FAILURES>\n" + TABLE[end:])
    assert short(read_logs([path], ENTRIES, workers=0).failures) == [(3, 1, 1, None, True)]


@pytest.mark.parametrize("line", ["Failures:", "1: Failures:", "tests/test_loss.py FAILED", "=" * 60])
def test_a_line_like_one_of_its_lines_swallows_nothing(line: str, tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(f'{line}\nTraceback (most recent call last):\n  File "a.py", line 1\nKeyError: 7\n')
    texts = [event.text for event in read_logs([path], ENTRIES, workers=0).events]
    assert "KeyError: 7" in texts
