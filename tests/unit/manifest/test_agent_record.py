"""A node agent's record: replaced every few seconds on one host, and read on another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.manifest.agent_record import AgentRecord, Outcome, RankEnd, read_agent_record, write_agent_record
from tests.unit.stale_reads import first_read_is_stale

RANK = RankEnd(24, 0, 4712, "STEPPING", 7, 5, -1)
RECORD = AgentRecord(3, "n4", 4711, 1.5, Outcome.RUNNING, signals=(("SIGTERM", 2.5),), ranks=(RANK,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node-0003.json"


def test_what_was_written_is_read(path: Path) -> None:
    assert read_agent_record(path) is None
    write_agent_record(path, RECORD)
    assert read_agent_record(path) == RECORD


def test_a_record_that_was_replaced_under_the_reader_is_read_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS has no bytes any more for who opened the old one."""
    write_agent_record(path, RECORD)
    first_read_is_stale(monkeypatch)
    assert read_agent_record(path) == RECORD


def test_a_record_that_the_file_system_refuses_is_none(path: Path) -> None:
    path.mkdir()
    assert read_agent_record(path) is None


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"outcome": "abducted"}, {"a_field_of_tomorrow": 1}, {"ranks": [{"rank": 0}]}, {"signals": None}],
    ids=lambda change: next(iter(change)),
)
def test_a_record_of_another_version_is_refused_by_name(path: Path, change: dict[str, object]) -> None:
    write_agent_record(path, RECORD)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ManifestUnsupported, match="node-0003"):
        read_agent_record(path)
