"""The fixtures of the known failures, read as the logs that they are."""

from __future__ import annotations

from pathlib import Path

from slurm_resilience.triage.known.entry import Role
from slurm_resilience.triage.known.table import TABLE
from slurm_resilience.triage.reading.log_report import LogReport
from slurm_resilience.triage.reading.read_logs import read_logs

FAILURES = Path(__file__).parents[3] / "failures"
HEALTHY = FAILURES / "healthy"
EXPECT = "#! expect:"


def read(paths: list[Path]) -> LogReport:
    return read_logs(paths, TABLE, workers=0)


def test_each_known_failure_is_found_in_its_fixture() -> None:
    expected: dict[str, str] = {}
    for entry in TABLE:
        path = FAILURES / entry.writer / f"{entry.name.partition('.')[2]}.log"
        expected[str(path)] = entry.name
    found: dict[str, set[str]] = {path: set() for path in expected}
    for event in read([Path(path) for path in expected]).events:
        if event.known is not None:
            found[event.place.file].add(event.known.name)
    assert [name for path, name in expected.items() if name not in found[path]] == []


def test_logs_of_healthy_runs_name_no_cause_and_no_exception() -> None:
    paths = sorted(HEALTHY.glob("*.log"))
    assert paths
    suspects = [
        event for event in read(paths).events if event.known is None or event.known.role in (Role.ROOT, Role.WAIT)
    ]
    assert suspects == []


def test_the_whole_folder_is_readable() -> None:
    report = read([FAILURES])
    assert report.unreadable == ()
    assert all(file.note is None for file in report.files)
