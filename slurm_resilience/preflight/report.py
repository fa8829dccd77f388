"""What preflight found out, as one value and as JSON, format 1: for programs, for triage and for the supervisor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_resilience.durable_file import make_directory_durably, replace_durably
from slurm_resilience.errors import ManifestUnsupported
from slurm_resilience.preflight.result import Finding, Outcome, Problem, Result

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Report:
    outcome: str
    """`ok`, `warn`, `fail`; `broken`: preflight could not run."""
    exit_code: int
    sentence: str
    job: str | None
    restart: int
    nodes: tuple[str, ...]
    started_s: float
    took_s: float
    results: tuple[Result, ...]
    clock_offsets_s: Mapping[str, float] = field(default_factory=dict)
    """By node: how far its clock is ahead of the first node's."""
    clock_errors_s: Mapping[str, float] = field(default_factory=dict)
    """By node: how far its offset may be wrong."""
    exclude: tuple[str, ...] = ()
    """The nodes with a failure that another node would not have."""
    drain: tuple[str, ...] = ()
    """For the administrators: lines for a shell. Nobody here runs them."""


def as_value(report: Report) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "outcome": report.outcome,
        "exit_code": report.exit_code,
        "sentence": report.sentence,
        "job": report.job,
        "restart": report.restart,
        "nodes": list(report.nodes),
        "started_s": round(report.started_s, 3),
        "took_s": round(report.took_s, 3),
        "results": [result_value(result) for result in report.results],
        "clock_offsets_s": {node: round(offset_s, 6) for node, offset_s in report.clock_offsets_s.items()},
        "clock_errors_s": {node: round(error_s, 6) for node, error_s in report.clock_errors_s.items()},
        "exclude": list(report.exclude),
        "drain": list(report.drain),
    }


def as_json(report: Report) -> str:
    return json.dumps(as_value(report), indent=2, default=str)  # str: what a check has measured may hold a path


def result_value(result: Result) -> dict[str, Any]:
    finding = result.finding
    return {
        "check": result.check,
        "node": result.node,
        "outcome": finding.outcome.value,
        "problem": finding.problem.value if finding.problem else None,
        "sentence": finding.sentence,
        "remedy": finding.remedy,
        "measured": dict(finding.measured),
        "took_s": None if result.took_s is None else round(result.took_s, 3),
    }


def read_report(path: Path) -> Report | None:
    """The report in `path`; None: there is none, or none that can be read.

    Raises ManifestUnsupported for a format that isn't known here.
    """
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "format" not in value:
        return None
    if value["format"] != FORMAT:
        raise ManifestUnsupported(f"{path}: a preflight report of format {value['format']!r}, which isn't known here")
    try:
        return _report_of(value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _report_of(value: Mapping[str, Any]) -> Report:
    job = value.get("job")
    return Report(
        outcome=str(value["outcome"]),
        exit_code=int(value["exit_code"]),
        sentence=str(value["sentence"]),
        job=None if job is None else str(job),
        restart=int(value.get("restart") or 0),
        nodes=_names(value["nodes"]),
        started_s=float(value["started_s"]),
        took_s=float(value["took_s"]),
        results=tuple(_result_of(each) for each in value["results"]),
        clock_offsets_s=_seconds(value.get("clock_offsets_s")),
        clock_errors_s=_seconds(value.get("clock_errors_s")),
        exclude=_names(value.get("exclude")),
        drain=_names(value.get("drain")),
    )


def _result_of(value: Mapping[str, Any]) -> Result:
    problem, node, took_s = value.get("problem"), value.get("node"), value.get("took_s")
    remedy = value.get("remedy")
    finding = Finding(
        Outcome(value["outcome"]),
        str(value["sentence"]),
        None if problem is None else Problem(problem),
        None if remedy is None else str(remedy),
        dict(value.get("measured") or {}),
    )
    return Result(
        str(value["check"]), None if node is None else str(node), finding, None if took_s is None else float(took_s)
    )


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value or ())


def _seconds(value: Any) -> dict[str, float]:
    return {str(node): float(seconds) for node, seconds in (value or {}).items()}


def write_report(report: Report, path: Path) -> None:
    """Durably, and whole or not at all. Raises OSError."""
    make_directory_durably(path.parent)
    replace_durably(path, as_json(report).encode() + b"\n")
