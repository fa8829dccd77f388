"""Preflight's process, watched: whatever the file system says meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm_resilience.clock import SystemClock
from slurm_resilience.supervisor.fitness import NotRun
from slurm_resilience.supervisor.notices import Notices
from slurm_resilience.supervisor.preflight_child import PreflightChild


def test_a_stop_file_that_can_not_be_looked_for_is_no_word_to_stop(tmp_path: Path) -> None:
    looks: list[None] = []

    def stale() -> bool:
        looks.append(None)
        raise OSError(116, "Stale file handle")

    argv = (sys.executable, "-c", "import time; time.sleep(1); print('done')")
    child = PreflightChild(argv, {}, tmp_path / "report", tmp_path / "log", 300.0, stale, SystemClock())
    with Notices() as notices:
        found = child.watch(notices)
    assert looks
    assert found == NotRun("it left with 0 and no report: done")
