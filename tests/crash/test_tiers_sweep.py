"""Who copies, publishes or keeps a ballast dies at every line it executes."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from slurm_resilience.checkpoint.disk.staged_file import is_staging
from slurm_resilience.checkpoint.space import reservation
from slurm_resilience.checkpoint.space.ballast import BALLAST, Ballast, Restored
from slurm_resilience.checkpoint.space.room import Room
from slurm_resilience.checkpoint.tiers import transfer
from slurm_resilience.checkpoint.tiers.fetching import fetch, read_published
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.publication import Outgoing, Parcel, publish, published_in
from slurm_resilience.checkpoint.tiers.published import Published, PublishedFile
from slurm_resilience.checkpoint.tiers.source import FileSource
from slurm_resilience.checkpoint.tiers.transfer import copy_file
from slurm_resilience.checkpoint.tiers.transit import Transit
from tests.crash.die_at_line import PACKAGE, die_at_line
from tests.crash.in_memory import tmp_path as tmp_path  # noqa: PLC0414 fixtures are found by their names here
from tests.unit.checkpoint.tiers.files import NoTime, contents_of, files_below, some_bytes

STEP = "step-0000000120.a3"
OLD, NEW = some_bytes(3000, seed=1), some_bytes(3000, seed=2)
CONTENTS = contents_of(NEW, 700, gap_bytes=9)
MOVING = (
    *(
        PACKAGE / f"checkpoint/tiers/{name}.py"
        for name in ("transfer", "passage", "source", "folder_depot", "publication")
    ),
    PACKAGE / "durable_file.py",
)
KEEPING = (
    *(PACKAGE / f"checkpoint/space/{name}.py" for name in ("ballast", "reservation")),
    PACKAGE / "durable_file.py",
)
KIB = 1024


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("transfer", "passage"):
        monkeypatch.setattr(f"slurm_resilience.checkpoint.tiers.{module}.PIECE_BYTES", 1000)
    monkeypatch.setattr(transfer, "_SYNC_EVERY_BYTES", 2000)
    monkeypatch.setattr(reservation, "_PIECE_BYTES", 4 * KIB)
    monkeypatch.setattr(reservation, "_SYNC_EVERY_BYTES", 8 * KIB)


def test_a_copier_that_dies_at_any_line_leaves_the_old_file_or_the_new_one_and_the_next_goes_on(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "to"
    source.write_bytes(NEW)
    final = folder / "rank-00000.h5"

    def copy() -> None:
        copy_file(FileSource(source), CONTENTS, final, owner=STEP, transit=Transit())

    alive, line, went_on = True, 0, 0
    while alive:
        line += 1
        folder.mkdir()
        final.write_bytes(OLD)
        alive = die_at_line(line, copy, within=MOVING)
        assert final.read_bytes() in (OLD, NEW), f"line {line}"
        assert all(path == final or is_staging(path) for path in folder.iterdir()), f"line {line}"
        copied = copy_file(FileSource(source), CONTENTS, final, owner=STEP, transit=Transit())
        went_on += 0 < copied.found_bytes < len(NEW)
        assert files_below(folder) == {final.name: NEW}, f"line {line}"
        shutil.rmtree(folder)
    assert line > 80, "the sweep saw too few lines to mean anything"
    assert went_on > 5


def test_a_publisher_that_dies_at_any_line_has_published_nothing_or_all(tmp_path: Path) -> None:
    source, archive, back = tmp_path / "run", tmp_path / "archive", tmp_path / "back"
    source.mkdir()
    data = {"rank-00000.h5": OLD, "rank-00001.h5": NEW}
    outgoing = []
    for name, content in data.items():
        (source / name).write_bytes(content)
        outgoing.append(Outgoing(name, source / name, contents_of(content, 700)))
    listed = tuple(PublishedFile(each.name, each.contents.size_bytes, each.contents.identity) for each in outgoing)
    parcel = Parcel(Published("0123", "night", STEP, 120, listed, "line"), tuple(outgoing))
    depot = FolderDepot(archive)

    def send() -> None:
        publish(depot, parcel, transit=Transit(), clock=NoTime())

    published = 0
    for line in itertools.count(1, 7):
        alive = die_at_line(line, send, within=MOVING)
        if published_in(depot):
            published += 1
            fetch(depot, read_published(depot, STEP), back, transit=Transit(), clock=NoTime())
            assert files_below(back) == data, f"line {line}"
            shutil.rmtree(back)
        send()
        assert published_in(depot) == [STEP], f"line {line}"
        shutil.rmtree(archive)
        if not alive:
            break
    assert line > 150
    assert 0 < published < line / 14


@pytest.mark.parametrize("written", [False, True], ids=["allocated", "written"])
def test_a_ballast_whose_keeper_dies_at_any_line_is_restored_and_released_by_the_next(
    written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if written:
        monkeypatch.setattr(reservation, "allocate", lambda *_: None)
    size_bytes = 12 * KIB
    ballast = Ballast(tmp_path / "checkpoints")

    def restore() -> None:
        ballast.restore(size_bytes, Room(1 << 40, None), spare_bytes=0)

    def release() -> None:
        ballast.release()

    alive, line = True, 0
    while alive:
        line += 1
        alive = die_at_line(line, restore, within=KEEPING)
        assert ballast.held_bytes() <= size_bytes
        assert ballast.restore(size_bytes, Room(1 << 40, None), spare_bytes=0) == Restored(size_bytes), f"line {line}"
        assert die_at_line(line, release, within=KEEPING) or line > 15
        held_bytes = ballast.held_bytes()
        assert held_bytes in (0, size_bytes)
        assert ballast.release() == held_bytes
        assert not (tmp_path / "checkpoints" / BALLAST).exists()
    assert line > 25
