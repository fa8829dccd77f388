"""A save is killed with SIGKILL at any of its instants: what was committed loads, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("how", [[], ["--writer-process"]], ids=["written by the rank", "written by its writer"])
def test_whenever_a_save_is_killed_what_was_committed_is_whole_and_the_rest_can_be_cleared(
    tmp_path: Path, how: list[str]
) -> None:
    command = [sys.executable, "-m", "tests.faults.kill_sweep", "--json", "--folder", str(tmp_path)]
    command += ["--count", "20", "--bytes", "64MiB", *how]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    kills = json.loads(done.stdout)
    assert len(kills) == 20
    found = {kill["found"] for kill in kills}
    assert len(found) > 1, f"the kills hit nothing but saves that were {found}"
