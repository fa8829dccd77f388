"""Options and rules for every test: which of them need a real Slurm, and that green never means that nothing ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.find import find_slurm

SLURM_TESTS = Path(__file__).parent / "slurm"
SLURM_TIMEOUT_S = 420
"""Slurm looks at limits and grace every 30 s, and two busy cores stretch everything else."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        choices=("off", "auto", "require"),
        default="auto",
        help="tests on a real Slurm: off skips them and counts them, auto (default) runs them where Slurm is installed,"
        " require fails where it isn't, and where none of them ran",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SlurmTests(config.getoption("slurm")), "slurm-tests")


class SlurmTests:
    """Marks, skips and counts the tests under tests/slurm."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.ran: set[str] = set()
        self.skipped: set[str] = set()
        self.why_missing = ""
        if mode == "off":
            return
        try:
            find_slurm()
        except ConfigurationError as error:
            self.why_missing = str(error)
            if mode == "require":
                raise pytest.UsageError(f"--slurm=require: {error}") from error

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if SLURM_TESTS not in item.path.parents:
                continue
            item.add_marker(pytest.mark.slurm)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SLURM_TIMEOUT_S))
            if self.mode == "off":
                item.add_marker(pytest.mark.skip(reason="--slurm=off"))
            elif self.why_missing:
                item.add_marker(pytest.mark.skip(reason=self.why_missing))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counted from the reports, because under xdist only they reach the process that knows the end of the run."""
        if not report.nodeid.startswith("tests/slurm/"):
            return
        if report.skipped:
            self.skipped.add(report.nodeid)
        elif report.when == "call":
            self.ran.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.nothing_ran(session.config) and session.exitstatus in (pytest.ExitCode.OK, 5):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def nothing_ran(self, config: pytest.Config) -> bool:
        is_worker = hasattr(config, "workerinput")
        return self.mode == "require" and not is_worker and not config.option.collectonly and not self.ran

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if self.nothing_ran(config):
            terminalreporter.write_line("--slurm=require, and not one test on a real Slurm ran", red=True, bold=True)
        elif self.ran or self.skipped:
            terminalreporter.write_line(
                f"tests on a real Slurm (--slurm={self.mode}): {len(self.ran)} ran, {len(self.skipped)} skipped"
            )
