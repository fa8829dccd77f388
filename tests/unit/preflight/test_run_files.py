from __future__ import annotations

import threading
from pathlib import Path

import pytest

from slurm_resilience.preflight import run_files
from slurm_resilience.preflight.report import read_report
from slurm_resilience.preflight.run_files import checkpoint_bytes_of, keep, within
from tests.unit.preflight.test_report import REPORT


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "PATIENCE_S", 100.0)


def test_what_an_action_returns_or_raises_is_returned_or_raised() -> None:
    assert within(60, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_nobody_waits_for_an_action_that_hangs() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.05, released.wait)
    released.set()


def test_the_report_is_kept_where_it_is_to_be(tmp_path: Path) -> None:
    assert keep(REPORT, tmp_path / "run" / "preflight" / "12-1.json") is None
    assert read_report(tmp_path / "run" / "preflight" / "12-1.json") == REPORT


def test_where_it_cannot_be_kept_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    said = keep(REPORT, tmp_path / "file" / "12-1.json")
    assert said is not None
    assert "Not a directory" in said or "File exists" in said
    monkeypatch.setattr(run_files, "PATIENCE_S", 0.05)
    released = threading.Event()
    monkeypatch.setattr(run_files, "write_report", lambda *_: released.wait())
    assert "no answer within" in (keep(REPORT, tmp_path / "12-1.json") or "")
    released.set()


def test_a_run_that_is_not_there_or_has_no_checkpoint_tells_no_size(tmp_path: Path) -> None:
    assert checkpoint_bytes_of(tmp_path / "run") is None
    (tmp_path / "run").mkdir()
    assert checkpoint_bytes_of(tmp_path / "run") is None
    (tmp_path / "run" / "manifest.jsonl").write_text("no journal\n")
    assert checkpoint_bytes_of(tmp_path / "run") is None
