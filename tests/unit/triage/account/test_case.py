"""What files are told apart by what stands in them, and what is made of them together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.preflight.report import Report, as_value
from slurm_resilience.triage.account.account import Account, Sure
from slurm_resilience.triage.account.as_json import as_json
from slurm_resilience.triage.account.case import Reports, account_of_files, read_reports, sort_out
from slurm_resilience.triage.account.facts import Facts

DUMPS = Path(__file__).parent / "dumps"
ERROR = "OSError: [Errno 28] No space left on device: '/scratch/x'\n"


def report(folder: Path, **more: object) -> Path:
    path = folder / "preflight.json"
    written = Report("fail", 2, "n2 is not fit", "7", 0, ("n1", "n2"), 5.0, 1.0, (), {"n2": 100.0})
    path.write_text(json.dumps({**as_value(written), **more}))
    return path


def test_a_folder_is_sorted_by_what_stands_in_its_files(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("step 3\n")
    (tmp_path / "comm_lib_trace_rank_0").write_bytes((DUMPS / "behind" / "comm_lib_trace_rank_0").read_bytes())
    report(tmp_path)
    note = {"job": "7", "restart": 0, "step": 0, "node": "n1", "rank": 0, "pid": 1, "status": 9, "time": 5.0}
    (tmp_path / "n1.jsonl").write_text(json.dumps(note) + "\n")
    (tmp_path / "n2.health.json").write_text('{"node": "n2", "mode": "warn", "findings": ["disk: full"]}')
    (tmp_path / "model.pt").write_bytes(b"\x80\x02 weights")
    (tmp_path / ".hidden").write_text("x")
    found = sort_out([tmp_path])
    assert [path.name for path in found.logs] == ["job.out"]
    assert [path.name for path in found.dumps] == ["comm_lib_trace_rank_0"]
    assert [path.name for path in found.reports] == ["preflight.json"]
    assert [path.name for path in found.exit_notes] == ["n1.jsonl"]
    assert [path.name for path in found.health] == ["n2.health.json"]


def test_a_file_that_is_named_by_itself_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log.pt"
    path.write_text(ERROR)
    assert account_of_files([path], Facts()).cause is Cause.STORAGE


def test_nothing_is_read_of_a_runs_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text("{}\n")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "notes.txt").write_text(ERROR)
    assert sort_out([tmp_path]).logs == ()


def test_a_report_of_preflight_gives_the_clocks_and_what_it_had_found(tmp_path: Path) -> None:
    bad = {"check": "disk", "node": "n2", "outcome": "fail", "sentence": "the disk is full"}
    good = {"check": "gpu", "node": "n1", "outcome": "ok", "sentence": "8 GPUs"}
    said = read_reports([report(tmp_path, results=[bad, good]), tmp_path / "none"])
    assert said.offsets_s == {"n2": 100.0}
    assert said.notes == ("preflight had failed on n2: the disk is full",)


@pytest.mark.parametrize(
    "more", [{"format": 99}, {"results": [{}]}, {"clock_offsets_s": {"n2": "fast"}}, {"took_s": 10**400}]
)
def test_a_report_that_is_not_whole_or_of_another_format_says_nothing(tmp_path: Path, more: dict[str, object]) -> None:
    assert read_reports([report(tmp_path, **more)]) == Reports()


def test_dumps_name_the_rank_that_the_logs_only_miss(tmp_path: Path) -> None:
    for rank in range(2):
        log = tmp_path / f"rank_{rank}.log"
        log.write_text(f"[rank{rank}]: RuntimeError: Timed out waiting 8000ms for recv operation to complete\n")
    told = account_of_files([tmp_path, DUMPS / "behind"], Facts())
    assert (told.cause, told.first.rank) == (Cause.HUNG, 2)
    assert "had last called 3, all_reduce" in told.quotes[0].text


def test_a_healthy_log_names_no_cause(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("step 1 loss 0.3\n" * 50)
    told = account_of_files([tmp_path], Facts())
    assert (told.cause, told.named) == (None, False)
    assert told.title == "nothing names a cause"


def test_the_order_of_the_files_makes_no_difference(tmp_path: Path) -> None:
    for rank, text in enumerate(
        ["[rank0]: RuntimeError: Connection closed by peer [10.0.0.1]:3\n", f"[rank1]: {ERROR}"]
    ):
        (tmp_path / f"rank_{rank}.log").write_text(text)
    paths = sorted(tmp_path.iterdir())
    assert as_json(account_of_files(paths, Facts())) == as_json(account_of_files(paths[::-1], Facts()))


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "comm_lib_trace_rank_1").write_bytes((DUMPS / "behind" / "comm_lib_trace_rank_1").read_bytes()[:700])
    told = account_of_files([tmp_path, tmp_path / "none.log"], Facts())
    assert any("comm_lib_trace_rank_1" in one.why for one in told.unread)
    assert any("none.log" in one.why for one in told.unread)


STEPS = "".join(f"2026-11-30 11:3{at}:16 INFO step {at}0 loss 0.{at}\n" for at in range(10))
UNREACHABLE = """Traceback (most recent call last):
  File "data.py", line 30, in fetch
requests.exceptions.HTTPError: 503 Server Error: Service Unavailable
ConnectionResetError: [Errno 104] Connection reset by peer
"""
INTERRUPTED = """Traceback (most recent call last):
  File "train.py", line 30, in <module>
KeyboardInterrupt
"""
CTRL_C = """srun: interrupt (one more within 1 sec to abort)
srun: sending Ctrl-C to StepId=55.0
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 55.0 ON n1 CANCELLED AT 2026-11-30T11:40:12 ***
"""
FAULT = """Fatal Python error: Segmentation fault

Current thread 0x00007f00 (most recent call first):
  File "data.py", line 12 in __getitem__
srun: error: n4: task 6: Segmentation fault (core dumped)
srun: error: n3: tasks 0-3: Terminated
"""
EVERYWHERE = "".join(f"{task}: ModuleNotFoundError: No module named 'x'\n" for task in range(4)) + (
    "srun: error: n1: tasks 0-1: Exited with exit code 1\nsrun: error: n2: tasks 2-3: Exited with exit code 1\n"
)


def account_of(tmp_path: Path, text: str) -> Account:
    path = tmp_path / "a.log"
    path.write_text(text)
    return account_of_files([path], Facts())


def test_a_server_that_was_asked_again_has_ended_nothing(tmp_path: Path) -> None:
    assert account_of(tmp_path, STEPS + UNREACHABLE + STEPS).cause is None
    assert account_of(tmp_path, STEPS + UNREACHABLE).cause is Cause.CRASHED


@pytest.mark.parametrize(
    "text",
    [
        STEPS + INTERRUPTED,
        STEPS + CTRL_C,
        STEPS + CTRL_C + INTERRUPTED,
        STEPS + "W1130 11:40:12.6 9 torch/x.py:7] Received 2 death signal, shutting down workers\n" + INTERRUPTED,
    ],
)
def test_a_training_that_somebody_interrupted_has_not_crashed(tmp_path: Path, text: str) -> None:
    told = account_of(tmp_path, text)
    assert (told.cause, told.sure) == (Cause.CANCELLED, Sure.LIKELY)


def test_the_interpreters_last_word_is_of_the_task_that_ended_by_that_signal(tmp_path: Path) -> None:
    told = account_of(tmp_path, FAULT)
    assert (told.first.rank, told.first.node, told.quotes[0].place.line) == (6, "n4", 1)
    assert account_of(tmp_path, FAULT.replace("(core", "x").replace("Segmentation fault x", "Killed x")).first.rank != 6


def test_what_all_labelled_tasks_say_is_all_ranks(tmp_path: Path) -> None:
    assert account_of(tmp_path, EVERYWHERE).first.all_ranks
