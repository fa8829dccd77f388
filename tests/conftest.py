"""Options and rules for every test: which of them need a real Slurm, and that green never means that nothing ran."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, settings

from slurm_resilience.errors import ConfigurationError
from slurm_resilience.sandbox.find import find_slurm
from tests.clusters.cluster import ClusterUnderTest
from tests.clusters.compose import ComposeCluster
from tests.clusters.embedded import EmbeddedCluster
from tests.clusters.engine import find_engine

HERE = Path(__file__).parent
SLURM_TIMEOUT_S = 900
"""Slurm looks at limits and grace every 30 s, and two busy cores stretch everything else."""

Mode = Literal["off", "auto", "require", "embedded", "docker", "both"]
Where = Literal["embedded", "docker"]
SLURM: dict[Where, str] = {"embedded": "a real Slurm", "docker": "the cluster of containers"}
MARK: dict[Where, str] = {"embedded": "embedded_cluster", "docker": "docker_cluster"}
REQUIRED: dict[Mode, tuple[Where, ...]] = {
    "off": (),
    "auto": (),
    "require": ("embedded",),
    "embedded": ("embedded",),
    "docker": ("docker",),
    "both": ("embedded", "docker"),
}
MARKERS = (
    "quick: a test of tests/integration that runs on the embedded cluster even where not everything is asked for",
    f"{MARK['embedded']}: runs on the embedded Slurm (set by conftest.py)",
    f"{MARK['docker']}: runs on docker-compose.slurm.yml (set by conftest.py)",
)


# How long an example takes, or how many are drawn in vain at first, is the machine's business, and it is busy.
settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        choices=tuple(REQUIRED),
        default="auto",
        help="tests on a real Slurm: off skips them and counts them; auto (default) runs them where Slurm is installed;"
        " require fails where it isn't, and where none of them ran; embedded is require with all of tests/integration;"
        " docker runs tests/docker and tests/integration on the cluster of docker-compose.slurm.yml, and nothing else;"
        " both requires everything",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(SlurmTests(config.getoption("slurm")), "slurm-tests")


class SlurmTests:
    """Chooses, marks, skips and counts the tests that need a real Slurm, per cluster."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.ran: dict[Where, set[str]] = defaultdict(set)
        self.skipped: dict[Where, set[str]] = defaultdict(set)
        self.why_missing = ""
        if "docker" in REQUIRED[mode]:
            try:
                find_engine()
            except ConfigurationError as error:
                raise pytest.UsageError(f"--slurm={mode}: {error}") from error
        if mode in ("off", "docker"):
            return
        try:
            find_slurm()
        except ConfigurationError as error:
            self.why_missing = str(error)
            if "embedded" in REQUIRED[mode]:
                raise pytest.UsageError(f"--slurm={mode}: {error}") from error

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen, others = [], []
        for item in items:
            where = cluster_of(item)
            if not self._is_asked_for(item, where):
                others.append(item)
                continue
            chosen.append(item)
            if where is not None:
                self._mark(item, where)
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = chosen

    def _is_asked_for(self, item: pytest.Item, where: Where | None) -> bool:
        match where:
            case None:
                return self.mode != "docker"
            case "docker":
                return self.mode in ("docker", "both")
            case "embedded":
                if self.mode == "docker":
                    return False
                of_both = HERE / "integration" in item.path.parents
                return not of_both or self.mode in ("embedded", "both") or item.get_closest_marker("quick") is not None

    def _mark(self, item: pytest.Item, where: Where) -> None:
        item.add_marker(pytest.mark.slurm)
        item.add_marker(MARK[where])
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLURM_TIMEOUT_S))
        if self.mode == "off":
            item.add_marker(pytest.mark.skip(reason="--slurm=off"))
        elif where == "embedded" and self.why_missing:
            item.add_marker(pytest.mark.skip(reason=self.why_missing))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counted from the reports, because under xdist only they reach the process that knows the end of the run."""
        for where, mark in MARK.items():
            if mark not in report.keywords:
                continue
            if report.skipped:
                self.skipped[where].add(report.nodeid)
            elif report.when == "call":
                self.ran[where].add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.did_not_run(session.config) and session.exitstatus in (pytest.ExitCode.OK, 5):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def did_not_run(self, config: pytest.Config) -> list[Where]:
        """The clusters on which tests had to run, and none did."""
        if hasattr(config, "workerinput") or config.option.collectonly:
            return []
        return [where for where in REQUIRED[self.mode] if not self.ran[where]]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        missing = self.did_not_run(config)
        for where, name in SLURM.items():
            ran, skipped = len(self.ran[where]), len(self.skipped[where])
            if where in missing:
                words = f"--slurm={self.mode}, and not one test on {name} ran"
                terminalreporter.write_line(words, red=True, bold=True)
            elif ran or skipped:
                words = f"tests on {name} (--slurm={self.mode}): {ran} ran, {skipped} skipped"
                terminalreporter.write_line(words)


def cluster_of(item: pytest.Item) -> Where | None:
    """Which cluster a test runs on; None: it needs none."""
    if HERE / "slurm" in item.path.parents:
        return "embedded"
    if HERE / "docker" in item.path.parents:
        return "docker"
    if HERE / "integration" not in item.path.parents:
        return None
    assert isinstance(item, pytest.Function)
    chosen = item.callspec.params["cluster_under_test"]
    return "docker" if chosen == "docker" else "embedded"


@pytest.fixture(scope="session", autouse=True)
def no_test_leaves_its_measurements_at_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Preflight keeps what it has measured of each node for the next time, and so would its tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def embedded_cluster() -> Iterator[ClusterUnderTest]:
    """One for all tests of this process that run on whatever cluster there is."""
    with EmbeddedCluster() as up:
        yield up


@pytest.fixture(scope="session")
def docker_cluster() -> Iterator[ComposeCluster]:
    """One for tests/integration and tests/docker together: it takes a while to come up."""
    with ComposeCluster() as up:
        yield up
