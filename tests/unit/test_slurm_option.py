"""`--slurm=off|auto|require` keeps its word: green never means that nothing ran."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WITH_SLURM = "import sys, pytest; import slurm_resilience.sandbox.find as find; find.find_slurm = lambda: None;"
WITHOUT_SLURM = """\
import sys, pytest
import slurm_resilience.sandbox.find as find
from slurm_resilience.errors import ConfigurationError
def missing(): raise ConfigurationError("no slurmctld here")
find.find_slurm = missing
"""
RUN = "\nsys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our conftest, one test of each kind, and one on Slurm that skips itself."""
    (tmp_path / "tests" / "slurm").mkdir(parents=True)
    shutil.copy(TESTS / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "tests" / "slurm" / "test_real.py").write_text(
        "import pytest\ndef test_real(): pass\ndef test_without_cgroups(): pytest.skip('no cgroups')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slurm\n    timeout\n")
    return tmp_path


def run(project: Path, slurm: str, *arguments: str) -> tuple[int, str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(TESTS.parent)
    done = subprocess.run(
        [sys.executable, "-c", slurm + RUN, "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "under xdist"])
def test_require_is_content_when_a_test_on_slurm_ran(project: Path, workers: tuple[str, ...]) -> None:
    code, said = run(project, WITH_SLURM, "--slurm=require", *workers)
    assert code == 0, said
    assert "tests on a real Slurm (--slurm=require): 1 ran, 1 skipped" in said


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "under xdist"])
def test_require_fails_when_every_test_on_slurm_was_left_out(project: Path, workers: tuple[str, ...]) -> None:
    code, said = run(project, WITH_SLURM, "--slurm=require", "tests/test_plain.py", *workers)
    assert code == 1
    assert "not one test on a real Slurm ran" in said


def test_require_fails_when_every_test_on_slurm_skipped_itself(project: Path) -> None:
    code, said = run(project, WITH_SLURM, "--slurm=require", "-k", "plain or cgroups")
    assert code == 1
    assert "not one test on a real Slurm ran" in said


def test_require_fails_at_once_where_slurm_is_missing(project: Path) -> None:
    code, said = run(project, WITHOUT_SLURM, "--slurm=require")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--slurm=require: no slurmctld here" in said


def test_auto_skips_and_says_why_where_slurm_is_missing(project: Path) -> None:
    code, said = run(project, WITHOUT_SLURM, "--slurm=auto", "-ra")
    assert code == 0
    assert "no slurmctld here" in said
    assert "tests on a real Slurm (--slurm=auto): 0 ran, 2 skipped" in said


def test_off_skips_and_counts_even_where_slurm_is_there(project: Path) -> None:
    code, said = run(project, WITH_SLURM, "--slurm=off")
    assert code == 0
    assert "tests on a real Slurm (--slurm=off): 0 ran, 2 skipped" in said
    assert "1 passed, 2 skipped" in said
