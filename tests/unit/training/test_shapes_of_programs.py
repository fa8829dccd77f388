# ruff: noqa: PT012 - a whole training stands in the block that has to raise
"""Trainings of many shapes, broken off and started again: what was left is done, once, and nothing else."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from slurm_resilience.errors import RunOwned
from slurm_resilience.manifest.chain import Chain
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training import Run, Stopped, open_run
from slurm_resilience.training.cursor import Cursor, Position

Seen = list[Any]
Program = Callable[[Run, Callable[[Any], None]], None]


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SLURM", "TORCHELASTIC")) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)


def open_here(run: Path, **options: Any) -> Run:
    return open_run(run_dir=run, snapshot="never", **options)


def chain_of(run: Path) -> Chain:
    return Chain.of(Journal(RunDirectory(run)).read())


def two_trainings_one_after_the_other(run: Run, see: Callable[[Any], None]) -> None:
    for epoch in run.epochs(4):
        for step in run.steps(2):
            see(("first", epoch, step))
    for epoch in run.epochs(3):
        for step in run.steps(2):
            see(("second", epoch, step))


def warm_up_train_and_cool_down(run: Run, see: Callable[[Any], None]) -> None:
    for item in run.batches([0, 1, 2]):
        see(("warm up", item))
    for epoch in run.epochs(2):
        for item in run.batches([0, 1]):
            see(("train", epoch, item))
    for item in run.batches([0, 1, 2]):
        see(("cool down", item))


def epochs_left_early_and_more_behind_them(run: Run, see: Callable[[Any], None]) -> None:
    for epoch in run.epochs(10):
        for step in run.steps(2):
            see(("train", epoch, step))
        if epoch == 1:
            break
    for step in run.steps(3):
        see(("more", step))


def two_loaders_in_an_epoch(run: Run, see: Callable[[Any], None]) -> None:
    data = TensorDataset(torch.arange(12))
    fours, twos = DataLoader(data, batch_size=4), DataLoader(data, batch_size=2)
    for epoch in run.epochs(2):
        for (numbers,) in run.batches(fours):
            see(("fours", epoch, numbers.tolist()))
        for (numbers,) in run.batches(twos):
            see(("twos", epoch, numbers.tolist()))


def seen_by(program: Program, folder: Path, break_at: int | None = None) -> Seen:
    seen: Seen = []

    def see(what: Any) -> None:
        if len(seen) == break_at:
            raise InterruptedError
        seen.append(what)

    with open_here(folder, save_every_steps=1) as run:
        program(run, see)
    return seen


@pytest.mark.parametrize(
    "program",
    [
        two_trainings_one_after_the_other,
        warm_up_train_and_cool_down,
        epochs_left_early_and_more_behind_them,
        two_loaders_in_an_epoch,
    ],
)
def test_broken_off_anywhere_every_item_becomes_a_step_once_in_its_own_loop(tmp_path: Path, program: Program) -> None:
    whole = seen_by(program, tmp_path / "whole")
    for break_at in range(1, len(whole)):
        folder = tmp_path / str(break_at)
        with pytest.raises(InterruptedError):
            seen_by(program, folder, break_at)
        assert seen_by(program, folder) == whole[break_at:]
    assert seen_by(program, tmp_path / "whole") == []  # finished: nothing is left to do


def test_a_place_without_a_stage_written_by_an_older_version_is_found_all_the_same() -> None:
    position = Position.of_state({"step": 7, "epoch": 1, "section": 0, "item": 3, "total": 4})
    assert position.stage is None
    assert "stage" not in position.to_state()
    cursor = Cursor()
    cursor.return_to(position, finished=False)
    assert cursor.first_epoch(4) == 1
    cursor.enter_epoch(1)
    entry = cursor.enter_section(4, outermost=False)
    assert entry is not None
    assert (entry.item, entry.resumed) == (3, True)


def test_a_finished_training_with_more_epochs_shuffles_and_draws_as_if_it_had_had_them_at_once(tmp_path: Path) -> None:
    def train(epochs: int, folder: Path) -> list[list[int]]:
        torch.manual_seed(0)
        loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=2, shuffle=True)
        seen: list[list[int]] = []
        with open_here(folder) as run:
            for _ in run.epochs(epochs):
                seen.append([])
                for (numbers,) in run.batches(loader):
                    seen[-1] += [*numbers.tolist(), int(torch.randint(0, 1000, ()))]
        return seen

    whole = train(4, tmp_path / "whole")
    assert train(2, tmp_path / "run") + train(4, tmp_path / "run") == whole


def test_a_finished_training_that_was_given_more_and_broken_off_is_not_finished(tmp_path: Path) -> None:
    def train(epochs: int, break_at: tuple[int, int] | None = None) -> list[tuple[int, int]]:
        seen = []
        with open_here(tmp_path / "run", save_every_steps=1) as run:
            for epoch in run.epochs(epochs):
                for step in run.steps(2):
                    if (epoch, step) == break_at:
                        raise InterruptedError
                    seen.append((epoch, step))
        return seen

    assert len(train(2)) == 4
    with pytest.raises(InterruptedError):
        train(4, (3, 0))
    assert train(4) == [(3, 0), (3, 1)]
    assert train(4) == []


def test_a_finished_training_whose_last_state_is_damaged_does_the_rest_again(tmp_path: Path) -> None:
    def train() -> list[int]:
        with open_here(tmp_path / "run", save_every_steps=2) as run:
            return list(run.steps(5))

    assert train() == [0, 1, 2, 3, 4]
    (part,) = (tmp_path / "run").glob("checkpoints/*.final/*.h5")
    part.write_bytes(part.read_bytes()[:-1])
    assert train() == [4]


def test_the_end_of_a_finished_training_that_went_on_is_saved_and_that_of_one_that_did_not_only_once(
    tmp_path: Path,
) -> None:
    def train(steps: int) -> list[int]:
        with open_here(tmp_path / "run") as run:
            for _ in run.steps(steps):
                pass
        return [each.committed.step for each in chain_of(tmp_path / "run").checkpoints]

    assert train(2) == [2]
    assert train(2) == [2]
    assert train(5) == [2, 5]


def test_a_loop_by_the_number_of_steps_ends_when_it_is_finished_and_goes_on_for_more(tmp_path: Path) -> None:
    def train(steps: int) -> int:
        items = passes = 0
        with open_here(tmp_path / "run") as run:
            while run.step < steps:
                passes += 1
                assert passes < 20, "it would go on for ever"
                for _ in run.batches([1, 2, 3]):
                    items += 1
        return items

    assert [train(6), train(6), train(12)] == [6, 0, 6]


def test_a_stop_that_somebody_catches_does_not_make_the_training_finished(tmp_path: Path) -> None:
    with pytest.raises(Stopped) as stopped, open_here(tmp_path / "run") as run:
        try:
            for step in run.steps(10):
                if step == 3:
                    os.kill(os.getpid(), signal.SIGUSR1)
        except BaseException:  # noqa: BLE001 as programs do
            pass
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    assert stopped.value.step == 4
    chain = chain_of(tmp_path / "run")
    assert not chain.finished
    assert [each.committed.step for each in chain.checkpoints] == [4]
    assert not list((tmp_path / "run").glob("attempts/*/error-*"))


def test_loaders_and_data_that_the_program_has_let_go_are_not_kept(tmp_path: Path) -> None:
    made = []
    with open_here(tmp_path / "run") as run:
        for _ in run.epochs(4):
            data = TensorDataset(torch.arange(8))
            loader = DataLoader(data, batch_size=4)
            made.append(weakref.ref(data))
            assert len(list(run.batches(loader))) == 2
        gc.collect()
        assert sum(each() is not None for each in made) <= 2


@pytest.mark.parametrize("leave", [SystemExit(0), None])
def test_a_forked_child_that_leaves_the_block_ends_nothing(tmp_path: Path, leave: SystemExit | None) -> None:
    here = os.getpid()
    try:
        with open_here(tmp_path / "run") as run:
            for step in run.steps(3):
                if step == 1:
                    child = os.fork()
                    if child == 0:
                        if leave is None:
                            break
                        raise leave
                    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                    assert not chain_of(tmp_path / "run").finished
                    assert not list((tmp_path / "run").glob("attempts/*/error-*"))
                    with pytest.raises(RunOwned), open_here(tmp_path / "run"):
                        pass
    except SystemExit:
        pass
    finally:
        if os.getpid() != here:
            os._exit(0)
    assert chain_of(tmp_path / "run").finished


TWICE = """
import os, sys
from pathlib import Path
from slurm_resilience.manifest.journal import Journal
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training import open_run
from slurm_resilience.training.attempt_identity import begin_bare
from slurm_resilience.training.environment import read_environment

folder = RunDirectory(Path(sys.argv[1]))
begin_bare(folder, Journal(folder), read_environment())
os.environ.update(SLURM_RESILIENCE_RUN=sys.argv[1], SLURM_RESILIENCE_ATTEMPT="1")
for fold in range(2):
    with open_run(run_dir=f"fold{fold}", snapshot="never") as run:
        print("fold", fold, list(run.steps(2)), flush=True)
"""


def test_a_second_training_in_one_program_is_refused_where_it_would_be_taken_for_the_first(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(tmp_path / "run")],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == "fold 0 [0, 1]\n"
    assert "one program trains one run" in done.stderr
