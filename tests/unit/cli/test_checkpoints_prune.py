"""`checkpoints prune`: what it plans, what it does, and what it never does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.errors import CheckpointUnavailable
from slurm_resilience.manifest.chain import Chain, CheckpointState
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.records import (
    AttemptResumed,
    CheckpointDamaged,
    CheckpointForgotten,
    CheckpointPinned,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from tests.unit.cli.test_checkpoints import call
from tests.unit.cli.told_runs import own, saved, started, tell


def made(path: Path, *steps: int) -> RunDirectory:
    """A run whose parts are files of no content: prune reads none."""
    run = tell(path, started(1), *(saved(step, 1) for step in steps))
    for step in steps:
        for part in saved(step, 1).parts:
            (run.path / part.file).parent.mkdir(parents=True, exist_ok=True)
            (run.path / part.file).touch()
    return run


def live(run: RunDirectory) -> list[int]:
    chain = Chain.of(Journal(run).read())
    return [each.committed.step for each in chain.checkpoints if each.state is CheckpointState.LIVE]


def on_disk(run: RunDirectory) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_a_dry_run_shows_the_plan_and_changes_nothing(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20, 30)
    before = run.journal.read_bytes()
    text = call("prune", run.path, "--keep-last=1", "--keep-every=20", "--dry-run")
    words = [line.split() for line in text.splitlines()]
    assert [" ".join(line[3:5]) for line in words[1:4]] == ["let go", "keep the", "keep the"]
    assert "1 let go, 2.86 MiB freed" in text
    assert run.journal.read_bytes() == before
    assert len(on_disk(run)) == 3


def test_nothing_is_let_go_before_the_user_has_agreed(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20, 30)
    assert "Delete the files of 2?" in call("prune", run.path, "--keep-last=1", answer="n\n", code=1)
    assert live(run) == [10, 20, 30]
    call("prune", run.path, "--keep-last=1", answer="y\n")
    assert live(run) == [30]
    assert on_disk(run) == ["step-0000000030.a1"]
    assert "nothing to do" in call("prune", run.path, "--keep-last=1")


def test_pinned_damaged_verified_and_best_ones_stay(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20, 30, 40, 50)
    Journal(run).append(
        CheckpointPinned(checkpoint_id(10, 1), "for the paper"),
        CheckpointDamaged(checkpoint_id(20, 1), 1, "short"),
        AttemptResumed(1, checkpoint_id(30, 1), 30, 2),
    )
    value = json.loads(call("prune", run.path, "--keep-last=1", "--keep-best=1", "--json", "--yes"))
    assert [each["checkpoint"] for each in value["forget"]] == ["step-0000000040.a1"]
    assert (value["done"], value["not_deleted"]) == (True, {})
    assert live(run) == [10, 30, 50]
    assert on_disk(run) == [f"step-00000000{step}.a1" for step in (10, 20, 30, 50)]


def test_for_programs_it_must_be_told_what_it_can_not_ask(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20)
    assert "add --yes, or --dry-run" in call("prune", run.path, "--keep-last=1", "--json", code=2)
    assert json.loads(call("prune", run.path, "--keep-last=1", "--json", "--dry-run"))["done"] is False


def test_a_run_that_is_running_is_pruned_without_disturbing_it(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20, 30)
    own(run, 1)
    call("prune", run.path, "--keep-last=2", "--yes")
    assert live(run) == [20, 30]


def test_what_is_pinned_between_the_plan_and_the_answer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path / "run", 10, 20)

    def pin_meanwhile(*_: object, **__: object) -> bool:
        Journal(run).append(CheckpointPinned(checkpoint_id(10, 1), "just in time"))
        return True

    monkeypatch.setattr("click.confirm", pin_meanwhile)
    call("prune", run.path, "--keep-last=1")
    assert live(run) == [10, 20]
    assert len(on_disk(run)) == 2


def test_what_was_forgotten_before_and_not_deleted_is_deleted_now(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20)
    Journal(run).append(CheckpointForgotten(checkpoint_id(10, 1), "retention"))
    (run.checkpoints / "somebody's").mkdir()
    call("prune", run.path, "--keep-last=5", "--yes")
    assert on_disk(run) == ["somebody's", "step-0000000020.a1"]


def test_files_that_can_not_be_deleted_are_named_and_forgotten_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path / "run", 10, 20)

    def refuse(self: Hdf5Store, checkpoint: str) -> None:
        raise CheckpointUnavailable("stale file handle")

    monkeypatch.setattr(Hdf5Store, "delete", refuse)
    text = call("prune", run.path, "--keep-last=1", "--yes", code=1)
    assert "step-0000000010.a1 is forgotten, but its files could not be deleted: stale file handle" in text
    assert live(run) == [20]


def test_prune_loads_no_torch(tmp_path: Path) -> None:
    run = made(tmp_path / "run", 10, 20)
    program = (
        "import sys\nfrom slurm_resilience.cli.checkpoints import checkpoints\n"
        f"checkpoints.main(['prune', {str(run.path)!r}, '--keep-last=1', '--yes'], standalone_mode=False)\n"
        "assert not {'torch', 'h5py', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
    assert live(run) == [20]
