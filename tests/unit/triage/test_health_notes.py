"""Health notes: what can be read is read, and nothing that isn't a node's name goes on to Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.triage.health_notes import (
    LONGEST_FINDING,
    MOST_FINDINGS,
    HealthNote,
    Mode,
    parse,
    read_health_notes,
)

GOOD = {"node": "n3", "mode": "exclude", "findings": ["gpu-ecc: 3 errors", "disk: full"]}


def test_a_note_says_which_node_ails_and_of_what() -> None:
    note = parse(json.dumps(GOOD))
    assert note == HealthNote("n3", Mode.EXCLUDE, ("gpu-ecc: 3 errors", "disk: full"))
    assert str(note) == "node n3 is unhealthy: gpu-ecc: 3 errors; disk: full"
    warned = parse(json.dumps({**GOOD, "mode": "warn", "findings": [], "of a later version": 1}))
    assert str(warned) == "node n3 is doubtful: its check says no more"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD)[:-3],
        "[]",
        "7",
        "[" * 100_000,
        json.dumps({**GOOD, "mode": "drain"}),
        json.dumps({**GOOD, "mode": None}),
        json.dumps({**GOOD, "findings": "gpu"}),
        json.dumps({**GOOD, "findings": [1]}),
        *(json.dumps({**GOOD, "node": node}) for node in ("", "n1,n2", "n[1-9]", "-n", "n 1", "ä", "n" * 300, 3, None)),
    ],
)
def test_what_is_no_note_is_none(text: str) -> None:
    assert parse(text) is None


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert parse(text) is None


@given(st.lists(st.text()))
def test_findings_are_lines_of_bounded_length(findings: list[str]) -> None:
    note = parse(json.dumps({**GOOD, "findings": findings}))
    assert note is not None
    assert len(note.findings) <= MOST_FINDINGS
    for line in note.findings:
        assert 0 < len(line) <= LONGEST_FINDING
        assert line.isprintable()


def test_the_notes_of_a_life_are_read_by_node_and_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    for node in ("n2", "n1"):
        (tmp_path / f"{node}.health.json").write_text(json.dumps({**GOOD, "node": node}))
    (tmp_path / "n3.health.json").write_text("torn")
    (tmp_path / "n4.health.json").mkdir()
    (tmp_path / "end.json").write_text("{}")
    (tmp_path / "n1.jsonl").write_text("")
    assert [note.node for note in read_health_notes(tmp_path, said.append)] == ["n1", "n2"]
    assert len(said) == 2
    assert "n3.health.json is no health note" in said[0]
    assert "n4.health.json can't be read" in said[1]


def test_where_no_plugin_looks_there_are_none(tmp_path: Path) -> None:
    assert read_health_notes(tmp_path / "exit-notes", pytest.fail) == ()
