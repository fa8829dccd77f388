"""What files are told apart by what stands in them, and what is made of them together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.manifest.records import Cause
from slurm_resilience.preflight.report import Report, as_value
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
