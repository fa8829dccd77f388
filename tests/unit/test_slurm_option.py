"""`--slurm=…` keeps its word: green never means that nothing ran."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WITH_BOTH = """\
import slurm_resilience.sandbox.find as find, tests.clusters.engine as engine
find.find_slurm = engine.find_engine = lambda: None
"""
MISSING = """\
from slurm_resilience.errors import ConfigurationError
def missing(): raise ConfigurationError("{} here")
"""
WITHOUT_SLURM = WITH_BOTH + MISSING.format("no slurmctld") + "find.find_slurm = missing\n"
WITHOUT_ENGINE = WITH_BOTH + MISSING.format("no engine") + "engine.find_engine = missing\n"
ALONE_OR_NOT = pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "under xdist"])

FILES = {
    "test_plain.py": "def test_plain(): pass\n",
    "slurm/test_real.py": """\
import pytest
def test_real(): pass
def test_without_cgroups(): pytest.skip("no cgroups")
""",
    "docker/test_containers.py": "def test_containers(): pass\n",
    "integration/test_both.py": """\
import pytest
pytestmark = pytest.mark.parametrize("cluster_under_test", ["embedded", "docker"])
@pytest.mark.quick
def test_quick(cluster_under_test): pass
def test_slow(cluster_under_test): pass
""",
}
EMBEDDED = {"test_real", "test_without_cgroups", "test_quick[embedded]"}
ALL_EMBEDDED = EMBEDDED | {"test_slow[embedded]"}
DOCKER = {"test_containers", "test_quick[docker]", "test_slow[docker]"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our conftest, one test of each kind, and one on Slurm that skips itself."""
    for name, text in FILES.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(TESTS / "conftest.py", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nmarkers =\n    slurm\n    timeout\n")
    return tmp_path


def run(project: Path, machine: str, *arguments: str) -> tuple[int, str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    # In every process, pytest-xdist's workers among them: none is to ask what this machine has.
    site = project / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(machine)
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{TESTS.parent}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("mode", "chosen"),
    [
        ("off", {"test_plain"} | EMBEDDED),
        ("auto", {"test_plain"} | EMBEDDED),
        ("require", {"test_plain"} | EMBEDDED),
        ("embedded", {"test_plain"} | ALL_EMBEDDED),
        ("docker", DOCKER),
        ("both", {"test_plain"} | ALL_EMBEDDED | DOCKER),
    ],
)
def test_each_mode_collects_what_it_says(project: Path, mode: str, chosen: set[str]) -> None:
    code, said = run(project, WITH_BOTH, f"--slurm={mode}", "--collect-only", "-q")
    assert code == 0, said
    assert {line.rpartition("::")[2] for line in said.splitlines() if "::" in line} == chosen


@ALONE_OR_NOT
def test_require_is_content_when_a_test_on_slurm_ran(project: Path, workers: tuple[str, ...]) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=require", *workers)
    assert code == 0, said
    assert "tests on a real Slurm (--slurm=require): 2 ran, 1 skipped" in said
    assert "containers (" not in said


@ALONE_OR_NOT
def test_require_fails_when_every_test_on_slurm_was_left_out(project: Path, workers: tuple[str, ...]) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=require", "tests/test_plain.py", *workers)
    assert code == 1
    assert "not one test on a real Slurm ran" in said


def test_require_fails_when_every_test_on_slurm_skipped_itself(project: Path) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=require", "-k", "plain or cgroups")
    assert code == 1
    assert "not one test on a real Slurm ran" in said


@pytest.mark.parametrize("mode", ["require", "embedded", "both"])
def test_who_requires_slurm_fails_at_once_where_it_is_missing(project: Path, mode: str) -> None:
    code, said = run(project, WITHOUT_SLURM, f"--slurm={mode}")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"--slurm={mode}: no slurmctld here" in said


def test_auto_skips_and_says_why_where_slurm_is_missing(project: Path) -> None:
    code, said = run(project, WITHOUT_SLURM, "--slurm=auto", "-ra")
    assert code == 0
    assert "no slurmctld here" in said
    assert "tests on a real Slurm (--slurm=auto): 0 ran, 3 skipped" in said


def test_off_skips_and_counts_even_where_slurm_is_there(project: Path) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=off")
    assert code == 0
    assert "tests on a real Slurm (--slurm=off): 0 ran, 3 skipped" in said
    assert "1 passed, 3 skipped" in said


@pytest.mark.parametrize("mode", ["off", "auto", "require", "embedded"])
def test_who_asks_for_no_containers_needs_no_engine(project: Path, mode: str) -> None:
    code, said = run(project, WITHOUT_ENGINE, f"--slurm={mode}")
    assert code == 0, said


@pytest.mark.parametrize("mode", ["docker", "both"])
def test_who_asks_for_containers_fails_at_once_where_no_engine_answers(project: Path, mode: str) -> None:
    code, said = run(project, WITHOUT_ENGINE, f"--slurm={mode}")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"--slurm={mode}: no engine here" in said


@ALONE_OR_NOT
def test_docker_needs_no_slurm_on_this_machine(project: Path, workers: tuple[str, ...]) -> None:
    code, said = run(project, WITHOUT_SLURM, "--slurm=docker", *workers)
    assert code == 0, said
    assert "tests on the cluster of containers (--slurm=docker): 3 ran, 0 skipped" in said
    assert "real Slurm" not in said


def test_docker_fails_when_no_test_on_the_containers_ran(project: Path) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=docker", "tests/slurm")
    assert code == 1
    assert "not one test on the cluster of containers ran" in said


def test_both_fails_when_either_cluster_had_no_test(project: Path) -> None:
    code, said = run(project, WITH_BOTH, "--slurm=both", "tests/slurm")
    assert code == 1
    assert "tests on a real Slurm (--slurm=both): 1 ran, 1 skipped" in said
    assert "--slurm=both, and not one test on the cluster of containers ran" in said
