"""Two ranks whose run directory has a file system of its own, a small one that somebody else fills."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.space.ballast import BALLAST
from slurm_resilience.manifest.records import SaveReason
from tests.training.run_under_test import Run

SIZE_BYTES = 1536 << 10
"""About seven checkpoints of the training under test."""


@pytest.fixture
def small_run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    """Its directory is a mount point: what the ranks say goes to another file system."""
    directory = tmp_path / "run"
    directory.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "slurm-resilience-test", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode != 0:
        why = f"needs a file system of its own, and may not mount one: {mounting.stderr.strip()}"
        if request.config.getoption("slurm") == "require":
            pytest.fail(why)
        pytest.skip(why)
    run = Run(directory)
    try:
        yield run
    finally:
        for ranks in run.attempts:
            ranks.end()
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(run: Run) -> Path:
    """Somebody else's file, of all that is left."""
    path = run.directory / "somebody-else"
    with path.open("ab", buffering=0) as file:
        for piece_bytes in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\1" * piece_bytes)
    status = os.statvfs(run.directory)
    assert status.f_bavail * status.f_frsize < 1 << 14, "it isn't full"
    return path


def test_a_disk_that_fills_up_costs_old_checkpoints_and_one_save_but_not_the_training(
    small_run: Run, undisturbed_weights: set[str]
) -> None:
    ranks = small_run.start("--save-every-steps=12", "--step-seconds=0.05", "--hold-at", "28", str(small_run.go_on))
    ranks.wait_for("rank 0 step 28\n")
    small_run.wait_until_saved(24)
    ballast = small_run.folder.checkpoints / BALLAST
    small_run.wait_until(lambda: ballast.exists() and ballast.stat().st_blocks > 0, "the ballast")
    fill(small_run)
    small_run.go_on.touch()
    assert ranks.wait() == [0, 0], ranks.said()
    assert ranks.weights() == undisturbed_weights
    said = ranks.said()
    assert "No space left on device" in said
    assert "forgetting step-0000000012.a1: the disk is full, and newer ones are kept" in said
    attempt = small_run.newest_attempt()
    assert attempt.saves_failed
    later = [each.step for each in attempt.checkpoints if each.step > attempt.saves_failed[0].step]
    assert later, said
    assert small_run.newest_checkpoint().reason is SaveReason.FINAL
    assert small_run.chain().finished
    assert not (small_run.folder.checkpoints / BALLAST).exists(), "a finished run holds no room back"


def stop_on_a_full_disk(run: Run, *, second_place: str = "") -> int:
    """The step that it stopped after. Nothing may go: there is only the checkpoint of step 8."""
    ranks = run.start(
        "--save-every-steps=8",
        "--step-seconds=0.2",
        "--hold-at",
        "9",
        str(run.go_on),
        SLURM_RESILIENCE_SNAPSHOT="never",
        SLURM_RESILIENCE_BALLAST="0",
        SLURM_RESILIENCE_SECOND_PLACE=second_place,
    )
    ranks.wait_for("rank 0 step 9\n")
    fill(run)
    ranks.ask_to_stop(seconds=3.0)
    run.go_on.touch()
    assert ranks.wait() == [0, 0], ranks.said()
    stopped = re.search(
        r"stopping after step (\d+) without its checkpoint \(.*\); the last one is that of step 8", ranks.said()
    )
    assert stopped is not None, ranks.said()
    return int(stopped[1])


def test_what_a_full_disk_refuses_is_staged_in_the_second_place_and_the_next_start_goes_on_from_it(
    small_run: Run, undisturbed_weights: set[str], tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    step = stop_on_a_full_disk(small_run, second_place=str(second))
    chain = small_run.chain()
    assert [(each.record.step, each.record.where, each.durable) for each in chain.staged] == [
        (step, str(second), False)
    ]
    assert chain.next_step < step

    (small_run.directory / "somebody-else").unlink()
    ranks = small_run.start(SLURM_RESILIENCE_SECOND_PLACE=str(second))
    assert ranks.wait() == [0, 0], ranks.said()
    assert f"begins at {step} from step-{step:010d}.a1" in ranks.said()
    assert ranks.weights() == undisturbed_weights
    brought = [each.committed for each in small_run.chain().checkpoints if each.committed.step == step]
    assert [each.reason for each in brought] == [SaveReason.STOP]
    assert not list(second.iterdir()), "what is durable need not stay there"


def test_without_a_second_place_the_last_durable_one_is_what_is_left(small_run: Run) -> None:
    stop_on_a_full_disk(small_run)
    chain = small_run.chain()
    assert (chain.staged, chain.next_step) == ((), 8)
    assert small_run.newest_attempt().saves_failed
