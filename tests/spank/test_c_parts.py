"""The plugin's C parts: its own test programs, under the sanitizers and under valgrind, and what it exports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SPANK = Path(__file__).parents[2] / "spank"
needs_headers = pytest.mark.skipif(not Path("/usr/include/slurm/spank.h").exists(), reason="no slurm/spank.h here")


def make(*targets: str, build: Path) -> str:
    done = subprocess.run(
        ["make", "-C", str(SPANK), f"BUILD={build}", *targets], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@needs_headers
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "target",
    [
        "test",
        pytest.param("valgrind", marks=pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind here")),
    ],
)
def test_the_test_programs_find_nothing_to_complain_of(target: str, tmp_path: Path) -> None:
    assert "passed" in make(target, build=tmp_path)


@needs_headers
def test_a_compiler_that_hardens_by_itself_builds_it_too(tmp_path: Path) -> None:
    make("CC=cc -D_FORTIFY_SOURCE=3", str(tmp_path / "plugin" / "local.o"), build=tmp_path)


@needs_headers
@pytest.mark.timeout(300)
def test_the_plugin_exports_hooks_and_facts_of_a_plugin_and_nothing_else(tmp_path: Path) -> None:
    make("all", build=tmp_path)
    listed = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(tmp_path / "resilience.so")],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert "slurm_spank_task_exit" in names
    assert [name for name in names if not name.startswith(("slurm_spank_", "spank_plugin_version", "plugin_"))] == []
    needed = subprocess.run(
        ["readelf", "--dynamic", str(tmp_path / "resilience.so")],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert "libslurm" not in needed.stdout
