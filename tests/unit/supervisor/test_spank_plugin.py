"""Whether srun is asked for our plugin of Slurm: with small programs in srun's place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_resilience.launch.srun_options import split
from slurm_resilience.supervisor import spank_plugin
from slurm_resilience.supervisor.spank_plugin import has_plugin

ROOT = Path(__file__).parents[3]
LISTED = """echo "Usage: srun [OPTIONS(0)... [executable(0) [args(0)...]]]"
echo "Options provided by plugins:"
echo "      --resilient[=HOW]       go on after an end"
"""
NOT_LISTED = "echo '  --no-resilient-things   --resilientish'"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spank_plugin, "HELP_S", 100.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


def srun(folder: Path, text: str) -> dict[str, str]:
    """The environment in which `text` is what srun does; each call of it leaves a line in `asked`."""
    program = folder / "bin" / "srun"
    program.write_text(f"#!/bin/sh\necho x >>{folder}/asked\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}/bin:/usr/bin:/bin"}


def has(words: str, environment: dict[str, str]) -> bool:
    return has_plugin(split(words.split()), environment)


@pytest.mark.parametrize(
    ("text", "loaded"),
    [(LISTED, True), (NOT_LISTED, False), (f"{LISTED}exit 1", False), ("exit 0", False)],
)
def test_the_plugin_is_there_where_srun_lists_its_option(folder: Path, text: str, loaded: bool) -> None:
    assert has("true", srun(folder, text)) is loaded


def test_where_there_is_no_srun_there_is_no_plugin(folder: Path) -> None:
    assert not has("true", {"PATH": f"{folder}/bin"})


def test_a_srun_that_hangs_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spank_plugin, "HELP_S", 0.3)
    began_s = time.monotonic()
    assert not has("true", srun(folder, "exec sleep 60"))
    assert time.monotonic() - began_s < 30


def test_it_is_asked_once(folder: Path) -> None:
    environment = srun(folder, LISTED)
    assert has("true", environment)
    assert has("-N2 true", environment | {"SLURM_JOB_ID": "7"})
    assert (folder / "asked").read_text() == "x\n"


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--resilient=off true", {}),
        ("--resilient true", {}),
        ("--resilient-run=/r true", {}),
        ("--resilient-signal-lead 60 true", {}),
        ("true", {"SLURM_RESILIENCE_SPANK": "off"}),
        ("true", {"SLURM_RESILIENCE_SPANK": " OFF "}),
    ],
)
def test_who_has_spoken_about_it_is_obeyed_and_nothing_is_asked(folder: Path, words: str, more: dict[str, str]) -> None:
    assert not has(words, srun(folder, LISTED) | more)
    assert not (folder / "asked").exists()


def test_a_dry_run_shows_the_option(folder: Path) -> None:
    environment = srun(folder, LISTED) | {"PYTHONPATH": str(ROOT), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "slurm_resilience.cli.srun_resilient",
            "--mode=slurm",
            "--dry-run",
            "-N1",
            "python",
            "t.py",
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert " --resilient " in done.stdout.splitlines()[0]
