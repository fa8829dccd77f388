"""Exit notes: whatever lies in their folder, what can be read is read and nothing is made up."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.triage.exit_notes import ExitNote, parse, read_exit_notes, signal_name

GOOD = {"job": "7", "restart": 0, "step": 0, "node": "n1", "rank": 3, "pid": 4711, "status": 9, "time": 20.5}
NOTE = ExitNote("7", 0, 0, "n1", 3, 4711, 9, 20.5)


def test_a_note_says_how_a_task_ended() -> None:
    assert parse(json.dumps(GOOD)) == ((NOTE,), 0)
    assert (NOTE.signal, NOTE.code) == ("SIGKILL", None)
    ((left,), _) = parse(json.dumps({**GOOD, "status": 3 << 8, "job": 7, "of a later version": True}))
    assert (left.job, left.signal, left.code) == ("7", None, 3)
    ((dumped,), _) = parse(json.dumps({**GOOD, "status": 0x80 | 11}))
    assert dumped.signal == "SIGSEGV"


def test_a_code_that_hands_on_a_commands_signal_is_understood() -> None:
    codes = {3: None, 75: None, 128: None, 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 128 + 60: None, 255: None}
    for code, name in codes.items():
        note = replace(NOTE, status=code << 8)
        assert (note.signal, note.code, note.last_signal) == (None, code, name)
    assert NOTE.last_signal == "SIGKILL"


def test_a_note_that_two_nodes_bring_counts_once(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        (tmp_path / f"{node}.jsonl").write_text(json.dumps(GOOD))
    assert read_exit_notes(tmp_path, 0, pytest.fail) == (NOTE,)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(GOOD)[:-5],
        "[]",
        "{}",
        "7",
        "\x00" * 40,
        json.dumps({**GOOD, "status": "9"}),
        json.dumps({**GOOD, "status": -1}),
        json.dumps({**GOOD, "rank": True}),
        json.dumps({**GOOD, "node": None}),
        json.dumps({**GOOD, "time": float("nan")}),
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_note_is_skipped_and_counted(line: str) -> None:
    assert parse(f"{line}\n{json.dumps(GOOD)}\n\n") == ((NOTE,), 1)


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    notes, unreadable = parse(text)
    assert notes == ()
    assert unreadable <= len(text.splitlines())


def test_notes_are_those_of_one_life_in_the_order_of_time(tmp_path: Path) -> None:
    said: list[str] = []
    lines = [json.dumps({**GOOD, "time": time_s, "restart": restart}) for time_s, restart in ((9, 1), (5, 1), (7, 0))]
    (tmp_path / "n1.jsonl").write_text("\n".join(lines))
    (tmp_path / "n2.jsonl").write_text("torn")
    (tmp_path / "n3.jsonl").mkdir()
    assert [note.time_s for note in read_exit_notes(tmp_path, 1, said.append)] == [5, 9]
    assert len(said) == 2
    assert "n2.jsonl are no exit notes" in said[0]
    assert "n3.jsonl can't be read" in said[1]


def test_where_no_plugin_writes_there_are_none(tmp_path: Path) -> None:
    assert read_exit_notes(tmp_path / "exit-notes", 0, pytest.fail) == ()


def test_the_signals_have_the_names_of_this_system() -> None:
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 24, 25, 31):
        assert signal_name(number) == signal.Signals(number).name
    assert signal_name(40) == "signal 40"
