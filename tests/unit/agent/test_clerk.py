"""What the clerk sees in the run directory, and what a file server's bad moment does to it. No thread is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_resilience.agent.clerk import Clerk
from slurm_resilience.agent.log import Log
from slurm_resilience.agent.notice import Ordered, Seen, StopFileTouched
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.signals.stop_request import StopReason
from tests.unit.stale_reads import first_read_is_stale

ORDER = {"reason": "PEER_FAILED", "because": "n2 failed", "seconds": 30}
ORDERED = Ordered(StopReason.PEER_FAILED, "n2 failed", 30.0)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    found = RunDirectory(tmp_path / "run")
    found.attempt(1).mkdir(parents=True)
    return found


@pytest.fixture
def clerk(run: RunDirectory) -> Clerk:
    return Clerk(run, 1, 0, Log("n0"), lambda: None)


def looks(clerk: Clerk) -> list[Seen]:
    """What is new since the last look."""
    clerk._look()
    seen = []
    while not clerk.seen.empty():
        seen.append(clerk.seen.get())
    return seen


def test_what_lies_there_is_seen_once(clerk: Clerk, run: RunDirectory) -> None:
    assert looks(clerk) == []
    run.stop_order(1).write_text(json.dumps(ORDER))
    run.stop_file.touch()
    assert looks(clerk) == [ORDERED, StopFileTouched()]
    assert looks(clerk) == []


def test_a_stop_file_that_can_not_be_looked_for_keeps_the_clerk_from_nothing_else(
    clerk: Clerk, run: RunDirectory
) -> None:
    run.stop_file.symlink_to("x" * 300)  # whoever follows it is refused: ENAMETOOLONG, as it might be ESTALE or EIO
    run.stop_order(1).write_text(json.dumps(ORDER))
    assert looks(clerk) == [ORDERED]
    run.stop_file.unlink()
    run.stop_file.touch()
    assert looks(clerk) == [StopFileTouched()]


def test_an_order_whose_reading_failed_once_is_read_again(
    clerk: Clerk, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_read_is_stale(monkeypatch)
    run.stop_order(1).write_text(json.dumps(ORDER))
    assert looks(clerk) == []
    assert looks(clerk) == [ORDERED]
