"""A state that the run directory refused: staged by all ranks, brought home by the next attempt, or left alone."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_resilience.checkpoint.tiers.transfer import copy_file
from slurm_resilience.commit.adoption import adopt
from slurm_resilience.commit.part_word import Terms
from slurm_resilience.errors import CheckpointUnavailable, Fenced
from slurm_resilience.manifest.chain import CheckpointState
from slurm_resilience.manifest.records import (
    SaveReason,
    checkpoint_id,
)
from slurm_resilience.manifest.run_directory import RunDirectory
from slurm_resilience.training.second_place import NotStaged, Staged
from tests.unit.training.fakes import FakeClock
from tests.unit.training.staging_scene import RANKS, Scene, is_step, state_of
from tests.unit.training.thread_ranks import ThreadRanks, on_ranks


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(("place", "world_size"), [(True, 2), (False, 2), (True, 1), (True, 3)])
def test_what_is_staged_is_brought_home_by_whoever_comes_next(scene: Scene, place: bool, world_size: int) -> None:
    scene.durable(10)
    assert scene.stage(20) == Staged(checkpoint_id(20, 1), scene.place)
    assert [(each.record.step, each.durable) for each in scene.chain().staged] == [(20, False)]
    assert scene.chain().next_step == 10
    scene.begin(2)
    scene.bring_home(2, place=place, world_size=world_size)
    committed = scene.chain().loadable()[0].committed
    assert (committed.step, committed.attempt, committed.reason, committed.metric) == (20, 1, SaveReason.STOP, 0.25)
    assert is_step(scene.newest_states(), 20)


def test_a_staged_one_that_is_no_newer_than_what_is_durable_stays_where_it_is(scene: Scene) -> None:
    scene.stage(20)
    scene.durable(20)
    scene.begin(2)
    scene.bring_home(2)
    assert len(scene.chain().checkpoints) == 1


def test_a_part_that_nobody_finds_is_one_sentence_and_the_durable_one_is_taken(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.durable(10)
    scene.stage(20)
    next(scene.place.rglob("rank-00001.receipt")).unlink()  # its node is gone
    scene.begin(2)
    scene.bring_home(2)
    assert scene.chain().next_step == 10
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{checkpoint_id(20, 1)} was staged and can't be brought back: no rank of this attempt finds" in said


def test_a_part_that_is_not_what_was_written_is_not_brought_home(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.stage(20)
    part = next(scene.place.rglob("rank-00001.h5"))
    content = bytearray(part.read_bytes())
    content[-100] ^= 1
    part.write_bytes(content)
    scene.begin(2)
    scene.bring_home(2)
    assert scene.chain().checkpoints == ()
    assert "can't be brought back: the part of rank 1:" in capsys.readouterr().err


def test_what_the_manifest_could_not_be_told_is_found_by_its_words(scene: Scene) -> None:
    scene.run.lock.unlink()
    scene.run.lock.mkdir()  # the manifest can be read, and not written
    assert isinstance(scene.stage(20), Staged)
    scene.run.lock.rmdir()
    assert scene.chain().staged == ()
    scene.begin(2)
    scene.bring_home(2)
    assert is_step(scene.newest_states(), 20)


def test_after_somebody_has_gone_on_from_elsewhere_it_is_no_past_of_ours(scene: Scene) -> None:
    scene.stage(20)
    scene.begin(2, resumed=True)
    scene.begin(3)
    scene.bring_home(3)
    assert scene.chain().checkpoints == ()


def test_wherever_bringing_it_home_was_broken_off_the_next_start_does_the_rest(scene: Scene) -> None:
    scene.stage(20)
    name = checkpoint_id(20, 1)
    there, home = RunDirectory(scene.place / scene.run_id).checkpoints / name, scene.run.checkpoints / name
    attempt = 2
    for done in ("nothing", "rank-00000.h5", "rank-00000.receipt", "rank-00001.h5"):
        scene.begin(attempt)
        home.mkdir(parents=True, exist_ok=True)
        if done != "nothing":
            shutil.copy(there / done, home / done)
        else:
            (home / f".rank-00000.h5.{name}.0000.tmp").write_bytes(b"half")
        assert adopt(scene.run, attempt=attempt, clock=FakeClock()) == []
        attempt += 1
    shutil.copy(there / "rank-00001.receipt", home)  # died before the commit
    scene.begin(attempt)
    assert [each.step for each in adopt(scene.run, attempt=attempt, clock=FakeClock())] == [20]
    scene.bring_home(attempt)
    assert is_step(scene.newest_states(), 20)


@pytest.mark.parametrize("done", ["rank-00000.h5", "rank-00000.receipt"])
def test_half_a_way_home_is_gone_on_with(scene: Scene, done: str) -> None:
    scene.stage(20)
    name = checkpoint_id(20, 1)
    home = scene.run.checkpoints / name
    home.mkdir(parents=True)
    shutil.copy(RunDirectory(scene.place / scene.run_id).checkpoints / name / done, home)
    scene.begin(2)
    scene.bring_home(2)
    assert is_step(scene.newest_states(), 20)


def test_on_a_full_disk_room_is_made_for_what_comes_home(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    class Room:
        def make_room(self, number: int | None, *, sparing: set[str]) -> bool:
            asked.append((number, sparing))
            return True

    asked: list[tuple[int | None, set[str]]] = []

    def refused_at_first(*arguments: Any, **more: Any) -> Any:
        if not asked:
            raise CheckpointUnavailable("no space left on device") from OSError(errno.ENOSPC, "no space left on device")
        return copy_file(*arguments, **more)

    monkeypatch.setattr("slurm_resilience.training.homecoming.copy_file", refused_at_first)
    scene.stage(20)
    scene.begin(2)
    scene.bring_home(2, room=Room())
    assert asked == [(errno.ENOSPC, {checkpoint_id(20, 1)})]
    assert is_step(scene.newest_states(), 20)


def test_of_what_is_staged_the_newest_stays_and_the_manifest_forgets_the_older_one(scene: Scene) -> None:
    scene.stage(20, 30)
    assert [each.record.step for each in scene.chain().staged] == [30]
    assert all(checkpoint_id(30, 1) in name for name in scene.staged_files())
    assert len(scene.staged_files()) == 4


def test_what_is_staged_is_deleted_once_a_checkpoint_is_durable_and_only_then(scene: Scene) -> None:
    (scene.place / "somebody else's").write_text("")
    scene.stage(15)  # an attempt before ours, that nobody could bring home
    scene.begin(2)

    def program(ranks: ThreadRanks) -> None:
        second = scene.second(ranks, 2)
        terms = Terms(checkpoint_id(20, 2), 20, 2, SaveReason.PERIODIC, RANKS)
        assert isinstance(second.stage(terms, state_of(20, ranks.rank), {}), Staged)
        if ranks.rank == 0:
            assert len(scene.staged_files()) == 9
            scene.durable(30, 2)
        ranks.all_gather(None)
        second.superseded()
        second.superseded()  # costs nothing

    on_ranks(RANKS, program)
    assert scene.staged_files() == ["somebody else's"]
    assert scene.chain().staged == ()
    assert not (scene.place / scene.run_id).exists()


def test_what_is_durable_as_well_is_not_forgotten_with_its_copy(scene: Scene) -> None:
    scene.stage(20)
    scene.begin(2)
    scene.bring_home(2)
    on_ranks(RANKS, lambda ranks: scene.second(ranks, 2).superseded())
    assert scene.staged_files() == []
    assert [each.state for each in scene.chain().checkpoints] == [CheckpointState.LIVE]


def test_nothing_is_deleted_that_the_manifest_could_not_forget(scene: Scene) -> None:
    scene.stage(20)
    scene.begin(2)
    scene.run.lock.unlink()
    scene.run.lock.mkdir()
    on_ranks(RANKS, lambda ranks: scene.second(ranks, 2).superseded())
    assert len(scene.staged_files()) == 4


@pytest.mark.parametrize("spoil", [Path.rmdir, lambda place: (place.rmdir(), place.write_text(""))])
def test_a_second_place_that_is_not_there_is_not_made(scene: Scene, spoil: Callable[[Path], Any]) -> None:
    spoil(scene.place)
    outcome = scene.stage(20)
    assert isinstance(outcome, NotStaged)
    assert str(scene.place) in outcome.why
    assert not scene.place.is_dir()
    assert scene.chain().staged == ()


def test_a_ghost_stages_nothing_that_counts(scene: Scene) -> None:
    scene.begin(2)
    with pytest.raises(Fenced):
        scene.stage(20)
    assert scene.chain().staged == ()


def test_a_second_place_that_is_not_there_is_named_at_the_beginning(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    on_ranks(RANKS, lambda ranks: scene.second(ranks, 1).look())
    assert capsys.readouterr().err == ""
    scene.place.rmdir()
    on_ranks(RANKS, lambda ranks: scene.second(ranks, 1).look())
    assert f"the second place {scene.place} is no folder where rank 0, 1 runs" in capsys.readouterr().err
