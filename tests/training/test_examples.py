"""The examples as run by somebody who has neither Slurm nor torchrun: interrupted, they end with the same weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARGUMENTS = {
    "digits.py": ("--epochs=1", "--batch-size=64"),
    "chargpt.py": ("--steps=24", "--batch-size=8"),
}


def run(example: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [*ARGUMENTS[example], f"--run-dir={folder}", "--workers=2", "--save-every-steps=5", *more]
    return subprocess.run(
        [sys.executable, ROOT / "examples" / example, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=190,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("example", sorted(ARGUMENTS))
def test_a_crash_in_the_middle_changes_nothing_about_the_end(example: str, tmp_path: Path) -> None:
    undisturbed = last_line(run(example, tmp_path / "undisturbed"))
    assert run(example, tmp_path / "crashed", "--crash-at=13").returncode != 0
    resumed = run(example, tmp_path / "crashed", "--crash-at=13")
    assert last_line(resumed) == undisturbed
    assert undisturbed.startswith("finished at step 24, weights ")
