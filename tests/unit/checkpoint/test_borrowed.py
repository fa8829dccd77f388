"""Tensors that didn't change lie in another checkpoint's part: found by plain h5py, verified like all others."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import Borrowed, PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

OLD = "step-0000000100.a1"
NEW = "step-0000000200.a1"
LENDER = f"rank-00000.from-{OLD}.h5"


def _state(step: int) -> dict[str, Any]:
    frozen = torch.arange(3000.0).reshape(50, 60)
    return {
        "frozen": frozen,
        "tied": frozen,
        "half": torch.arange(100, dtype=torch.bfloat16),
        "learning": torch.full((1000,), float(step)),
        "step": step,
    }


@dataclass(frozen=True, slots=True)
class Scene:
    store: Hdf5Store
    old: PartReceipt
    new: PartReceipt
    lender: Path


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    store = Hdf5Store(tmp_path)
    old = store.write_part(OLD, rank=0, state=_state(100), attributes={})
    lender = tmp_path / "checkpoints" / NEW / LENDER
    lender.parent.mkdir()
    os.link(store.path_of(old), lender)
    borrowed = {
        each.dataset.name: Borrowed(LENDER, each.offset, each.checksum)
        for each in store.head_of(old).placed
        if each.dataset.name != "learning"
    }
    new = store.write_part(NEW, rank=0, state=_state(200), attributes={}, borrowed=borrowed)
    return Scene(store, old, new, lender)


def test_what_is_borrowed_is_not_written_and_comes_back_all_the_same(scene: Scene) -> None:
    loaded = scene.store.read_part(scene.new)
    assert compare_states(_state(200), loaded) == []
    assert scene.new.bytes < scene.old.bytes - _state(0)["frozen"].nbytes
    assert loaded["frozen"].data_ptr() == loaded["tied"].data_ptr()
    mine, theirs = (scene.store.verify_part(receipt) for receipt in (scene.new, scene.old))
    assert [entry for entry in mine if entry.name != "learning"] == [
        entry for entry in theirs if entry.name != "learning"
    ]


def test_plain_h5py_follows_the_links_under_every_name(scene: Scene) -> None:
    with h5py.File(scene.store.path_of(scene.new), "r") as file:
        assert isinstance(file.get("state/frozen", getlink=True), h5py.ExternalLink)
        for name in ("frozen", "tied"):
            assert file[f"state/{name}"][()].tolist() == _state(0)["frozen"].tolist()
        assert file["state/half"].attrs["dtype"] == b"bfloat16"
        assert file["state/learning"][0] == 200
        assert file["places"][:, 0].tolist() == [1, 1, 0]


def test_a_part_outlives_the_checkpoint_that_it_borrows_from(scene: Scene) -> None:
    scene.store.delete(OLD)
    assert compare_states(_state(200), scene.store.read_part(scene.new)) == []
    scene.store.delete(NEW)
    assert scene.store.found_on_disk() == []


def test_who_borrows_does_not_trust_the_head_of_the_file_it_borrows_from(scene: Scene) -> None:
    content = bytearray(scene.lender.read_bytes())
    content[:4096] = bytes(4096)
    scene.lender.write_bytes(content)
    assert compare_states(_state(200), scene.store.read_part(scene.new)) == []


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.rindex(_state(0)["frozen"].numpy().tobytes()) + 5] ^= 1
    path.write_bytes(content)


def _another(path: Path) -> None:
    path.unlink()
    path.write_bytes(bytes(100_000))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


ACCIDENTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "altered": (_flip, "has the checksum"),
    "another file": (_another, "has the checksum"),
    "short": (lambda path: os.truncate(path, 9000), "ends at byte"),
    "empty": (lambda path: os.truncate(path, 0), "ends at byte"),
    "missing": (lambda path: path.unlink(), "is missing"),
    "a folder": (_folder, "ends at byte|is missing"),
}


@pytest.mark.parametrize(("accident", "words"), ACCIDENTS.values(), ids=ACCIDENTS.keys())
def test_a_borrowed_file_that_is_not_as_it_was_is_damage_that_names_both_files_and_the_tensor(
    scene: Scene, accident: Callable[[Path], None], words: str
) -> None:
    accident(scene.lender)
    for verb in (scene.store.read_part, scene.store.verify_part):
        with pytest.raises(CheckpointDamaged, match=words) as caught:
            verb(scene.new)
        assert caught.value.path == scene.store.path_of(scene.new)
        assert f"tensor frozen (in {LENDER})" in str(caught.value)
    assert scene.store.head_of(scene.new).rank == 0


def test_a_borrowed_file_that_can_not_be_opened_is_unavailable_not_damaged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith(LENDER):
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CheckpointUnavailable, match=LENDER):
        scene.store.read_part(scene.new)


@pytest.mark.parametrize("file", ["../x.h5", "rank-00000.h5"])
def test_nothing_is_borrowed_from_outside_the_folder_or_from_the_part_itself(scene: Scene, file: str) -> None:
    loan = {"frozen": Borrowed(file, 8192, bytes(16))}
    with pytest.raises(CheckpointUnsupported):
        scene.store.write_part(NEW, rank=0, state=_state(3), attributes={}, borrowed=loan)
    assert scene.store.verify_part(scene.new)
