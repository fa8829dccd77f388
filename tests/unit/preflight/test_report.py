from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.preflight.report import Report, as_json, read_report, write_report
from slurm_resilience.preflight.result import Problem, Result, fail, ok

REPORT = Report(
    outcome="fail",
    exit_code=2,
    sentence="n3 is not fit",
    job="12",
    restart=1,
    nodes=("n1", "n3"),
    started_s=1_800_000_000.25,
    took_s=12.5,
    results=(
        Result("gpu", "n3", fail(Problem.NODE, "GPU 2 asks for a reset", "reset it", gpu=2), 0.5),
        Result("same-versions", None, ok("2 nodes have the same versions")),
    ),
    clock_offsets_s={"n1": 0.0, "n3": -0.003},
    clock_errors_s={"n1": 0.0, "n3": 0.001},
    exclude=("n3",),
    drain=("scontrol update …",),
)


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    write_report(REPORT, tmp_path / "preflight" / "12-1.json")
    assert read_report(tmp_path / "preflight" / "12-1.json") == REPORT


def test_the_json_has_the_names_that_others_read() -> None:
    value = json.loads(as_json(REPORT))
    assert value["format"] == 1
    assert value["results"][0] == {
        "check": "gpu",
        "node": "n3",
        "outcome": "fail",
        "problem": "node problem",
        "sentence": "GPU 2 asks for a reset",
        "remedy": "reset it",
        "measured": {"gpu": 2},
        "took_s": 0.5,
    }
    assert value["clock_offsets_s"] == {"n1": 0.0, "n3": -0.003}
    assert (value["exclude"], value["job"], value["restart"]) == (["n3"], "12", 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="no file"),
        pytest.param("", id="empty"),
        pytest.param('{"format": 1, "outc', id="torn"),
        pytest.param("[1, 2]", id="another kind of JSON"),
        pytest.param('{"some": "other file"}', id="not of preflight"),
        pytest.param('{"format": 1, "outcome": "ok"}', id="things are missing"),
        pytest.param("[" * 200_000, id="nested without end"),
        pytest.param(as_json(REPORT).replace('"took_s": 12.5', f'"took_s": {10**400}'), id="a number too large"),
    ],
)
def test_what_cannot_be_read_is_no_report(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    assert read_report(path) is None


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"format": 2}')
    with pytest.raises(ManifestUnsupported, match=r"report\.json.*format 2"):
        read_report(path)


def test_what_a_later_version_adds_does_not_hinder_reading(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**json.loads(as_json(REPORT)), "novelty": [1]}))
    assert read_report(path) == REPORT
