"""Two ranks whose periodic saves are written by processes of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from slurm_resilience.manifest.chain import CheckpointState
from slurm_resilience.manifest.records import SaveReason
from tests.training.run_under_test import Run


def writers_of(run: Run) -> list[int]:
    """The writer processes of this run's ranks."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"slurm_resilience.commit.program" in words and str(run.folder.path).encode() in words:
                found.append(int(folder.name))
    return found


def test_a_killed_writer_costs_one_save_and_not_the_training(run: Run, undisturbed_weights: set[str]) -> None:
    ranks = run.start("--save-every-steps=6", "--hold-at", "9", str(run.go_on))
    ranks.wait_for("rank 0 step 9\n")
    writers = writers_of(run)
    assert len(writers) == 2
    for writer in writers:
        os.kill(writer, signal.SIGKILL)
    run.go_on.touch()
    assert ranks.wait() == [0, 0], ranks.said()
    assert ranks.weights() == undisturbed_weights
    attempt = run.newest_attempt()
    assert len(attempt.saves_failed) <= 1
    steps = [each.step for each in attempt.checkpoints if each.reason is SaveReason.PERIODIC]
    assert set(steps) | {failed.step for failed in attempt.saves_failed} == set(range(6, 49, 6))


def test_replicas_are_written_once_and_a_dead_rank_comes_back_from_what_its_writer_finished(
    run: Run, undisturbed_weights: set[str]
) -> None:
    ranks = run.start("--save-every-steps=6", "--kill-rank-at", "0", "20")
    ranks.wait()
    run.wait_until(lambda: not writers_of(run), "the end of the writers, who have no ranks any more,")
    newest = run.newest_checkpoint()
    assert newest.step == 18
    assert newest.stall_s is not None

    ranks = run.start("--save-every-steps=6")
    assert ranks.wait() == [0, 0], ranks.said()
    assert "begins at 18" in ranks.said()
    assert ranks.weights() == undisturbed_weights
    assert all(each.state is not CheckpointState.DAMAGED for each in run.chain().checkpoints)
