"""What the files are: readable by anybody, laid out for the fastest writer, never trusted."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import xxhash

from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported

ID = "step-0000000120.a3"


def _state() -> dict[str, Any]:
    tied = torch.arange(3000, dtype=torch.float32).reshape(50, 60)
    return {
        "model": {"w": tied, "head": tied, "bf16": torch.tensor([1.0, -2.5, float("inf")], dtype=torch.bfloat16)},
        "complex": torch.tensor([1 + 2j]),
        "flags": torch.tensor([True, False]),
        "fp8": torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn),
        "step": torch.tensor(120),
        "empty": torch.empty(0, 4),
        "many": [torch.full((n + 1,), float(n)) for n in range(20)],
    }


@pytest.fixture
def store(tmp_path: Path) -> Hdf5Store:
    return Hdf5Store(tmp_path / "run")


def _write(store: Hdf5Store, **attributes: Any) -> PartReceipt:
    return store.write_part(ID, rank=3, state=_state(), attributes=attributes)


def test_a_part_lies_where_the_manifest_says_and_nothing_lies_beside_it(store: Hdf5Store) -> None:
    receipt = _write(store)
    assert receipt.file == f"checkpoints/{ID}/rank-00003.h5"
    path = store.path_of(receipt)
    assert [each.name for each in path.parent.iterdir()] == ["rank-00003.h5"]
    assert path.stat().st_size == receipt.bytes
    assert store.found_on_disk() == [ID]


def test_plain_h5py_reads_names_numbers_and_attributes(store: Hdf5Store) -> None:
    path = store.path_of(_write(store, step=120, lr=0.1, done=False, note="Grüße", nothing=None))
    with h5py.File(path, "r") as file:
        assert file.attrs["format"] == b"slurm-resilience checkpoint part"
        assert file.attrs["format_version"] == 2
        facts = json.loads(file["attributes"][()])
        assert (facts["checkpoint"], facts["rank"]) == (ID, 3)
        assert facts["attributes"] == {"step": 120, "lr": 0.1, "done": False, "note": "Grüße", "nothing": None}
        assert np.array_equal(file["state/model/w"][()], np.arange(3000, dtype=np.float32).reshape(50, 60))
        assert file["state/model/w"] == file["state/model/head"]
        assert file["state/model/bf16"].astype("f4")[()].tolist() == [1.0, -2.5, float("inf")]
        assert file["state/complex"][0] == 1 + 2j
        assert file["state/flags"][()].tolist() == [True, False]
        assert file["state/fp8"][()].tolist() == [0x38, 0x7E]
        assert file["state/fp8"].attrs["dtype"] == b"float8_e4m3fn"
        assert file["state/step"][()] == 120
        assert file["state/empty"].shape == (0, 4)


def test_the_checksum_table_can_be_checked_with_plain_h5py_and_xxhash(store: Hdf5Store) -> None:
    path = store.path_of(_write(store))
    raw = path.read_bytes()
    with h5py.File(path, "r") as file:
        rows = json.loads(file["structure"][()])["tensors"]
        assert file["checksums"].shape == (len(rows), 16)
        assert file["places"].shape == (len(rows), 2)
        for (name, _, shape), checksum, place in zip(rows, file["checksums"], file["places"], strict=True):
            dataset = file[f"state/{name}"].id
            start = dataset.get_offset() or 0
            assert list(dataset.shape) == shape
            assert place.tolist() == [0, start]
            elements = raw[
                start : start + (dataset.get_storage_size() if dataset.get_space().get_select_npoints() else 0)
            ]
            assert xxhash.xxh3_128(elements).digest() == checksum.tobytes()


def test_h5dump_and_h5ls_read_a_part_without_complaint(store: Hdf5Store) -> None:
    path = store.path_of(_write(store))
    dump = subprocess.run(["h5dump", "-d", "/state/model/bf16", path], capture_output=True, text=True, check=True)
    assert "(0): 1, -2.5, inf" in dump.stdout
    listing = subprocess.run(["h5ls", "-r", path], capture_output=True, text=True, check=True)
    assert "/state/model/w           Dataset, same as /state/model/head" in listing.stdout
    assert dump.stderr == listing.stderr == ""


def test_the_layout_is_that_of_a_prepared_image(store: Hdf5Store) -> None:
    receipt = _write(store)
    head_bytes = int(receipt.checksum.rsplit(":", 1)[1])
    ends = [head_bytes]
    with h5py.File(store.path_of(receipt), "r") as file:
        assert file.userblock_size == 0
        datasets: list[h5py.Dataset] = []
        file["state"].visititems(lambda _, each: datasets.append(each) if isinstance(each, h5py.Dataset) else None)
        for dataset in datasets:
            assert dataset.chunks is None
            assert dataset.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
            assert not dataset.id.get_create_plist().get_obj_track_times()
            if dataset.size == 0:
                continue
            assert dataset.id.get_offset() >= -(-head_bytes // 4096) * 4096
            assert dataset.nbytes < 64 or dataset.id.get_offset() % 4096 == 0
            ends.append(dataset.id.get_offset() + dataset.nbytes)
        for name in ("structure", "attributes", "places", "checksums"):
            assert file[name].id.get_offset() + file[name].nbytes <= head_bytes
    assert max(ends) == receipt.bytes


def test_the_same_state_makes_the_same_bytes(tmp_path: Path) -> None:
    one, other = (Hdf5Store(tmp_path / name) for name in "ab")
    first, second = _write(one, step=1), _write(other, step=1)
    assert first == second
    assert one.path_of(first).read_bytes() == other.path_of(second).read_bytes()


def test_a_store_that_has_written_other_parts_writes_the_same_bytes(tmp_path: Path) -> None:
    one, other = (Hdf5Store(tmp_path / name) for name in "ab")
    for step in range(3):
        one.write_part("step-1.a1", rank=step, state=_state() | {"steps": [10**step] * 50}, attributes={"step": step})
    first, second = _write(one, step=1), _write(other, step=1)
    assert one.path_of(first).read_bytes() == other.path_of(second).read_bytes()


def test_a_part_larger_than_a_piece_comes_back(store: Hdf5Store) -> None:
    state = {"w": torch.arange(3 * 2**20 + 17, dtype=torch.int64)}
    receipt = store.write_part(ID, rank=0, state=state, attributes={})
    pieces: list[int] = []
    assert torch.equal(store.read_part(receipt, progress=pieces.append)["w"], state["w"])
    assert len(pieces) > 1
    assert sum(pieces) == state["w"].nbytes


def test_a_state_without_tensors_is_a_part_too(store: Hdf5Store) -> None:
    receipt = store.write_part(ID, rank=0, state={"step": 3}, attributes={})
    assert store.read_part(receipt) == {"step": 3}
    assert store.verify_part(receipt) == []


def test_attributes_come_back_as_they_were_given(store: Hdf5Store) -> None:
    given = {"step": -(2**63), "lr": float("inf"), "done": True, "note": "", "nothing": None, "ü": "ü" * 1000}
    given |= {f"more {number}": number for number in range(40)}
    given |= {"": "\ud800\0", "long": "x" * 100_000, "small": -0.0, "tenth": 0.1}
    assert store.read_attributes(_write(store, **given)) == given
    assert store.read_attributes(_write(store, torch=torch.__version__, n=np.int32(3))) == {
        "torch": str(torch.__version__),
        "n": 3,
    }


@pytest.mark.parametrize("attributes", [{"a": 2**63}, {"a": [1]}, {"a": b"x"}, {"a": 1j}, {3: 1}], ids=str)
def test_an_attribute_that_is_not_plain_is_refused_and_nothing_is_written(
    store: Hdf5Store, attributes: dict[str, Any]
) -> None:
    with pytest.raises(CheckpointUnsupported):
        store.write_part(ID, rank=0, state={}, attributes=attributes)
    assert store.found_on_disk() == []


@pytest.mark.parametrize("checkpoint", ["", ".", "..", "../x", "a/b", ".hidden", "x\n", "x\0"])
def test_a_checkpoint_name_can_never_lead_out_of_its_folder(store: Hdf5Store, checkpoint: str) -> None:
    with pytest.raises(CheckpointUnsupported):
        store.write_part(checkpoint, rank=0, state={}, attributes={})
    with pytest.raises(CheckpointUnsupported):
        store.delete(checkpoint)


@pytest.mark.parametrize("file", ["/etc/passwd", "../outside.h5", "checkpoints/../../x"])
def test_a_receipt_can_never_lead_out_of_the_run_directory(store: Hdf5Store, file: str) -> None:
    with pytest.raises(CheckpointDamaged, match="not below"):
        store.read_part(PartReceipt(0, file, 1, f"xxh3-128:{'0' * 32}:1"))


def test_deleting_takes_what_dead_writers_left_and_leaves_what_is_not_ours(store: Hdf5Store) -> None:
    folder = store.path_of(_write(store)).parent
    (folder / f".rank-00007.h5.{ID}.0123456789abcdef.tmp").write_bytes(b"torn")
    (folder / "rank-00003.receipt").write_bytes(b"{}")
    (folder / "rank-00003.from-step-0000000100.a1.h5").write_bytes(b"lent")
    (folder / "notes.txt").write_text("mine")
    (folder / "rank-00003.from-me.txt").write_text("mine too")
    store.delete(ID)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "rank-00003.from-me.txt"]
    (folder / "rank-00003.from-me.txt").unlink()
    (folder / "notes.txt").unlink()
    store.delete(ID)
    assert store.found_on_disk() == []


def test_a_run_directory_that_is_not_mounted_says_nothing_about_the_checkpoint(tmp_path: Path) -> None:
    store = Hdf5Store(tmp_path / "run")
    receipt = _write(store)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(CheckpointDamaged, match="missing"):
        store.read_part(receipt)
    (tmp_path / "run").rmdir()
    with pytest.raises(CheckpointUnavailable, match="is not there"):
        store.read_part(receipt)


@pytest.mark.parametrize("checksum", ["", "sha256:00", "xxh3-128:00", f"xxh3-128:{'0' * 32}", f"xxh3-128:{'0' * 32}:0"])
def test_a_checksum_of_another_kind_is_unsupported_not_damaged(store: Hdf5Store, checksum: str) -> None:
    with pytest.raises(CheckpointUnsupported, match="checksum"):
        store.verify_part(replace(_write(store), checksum=checksum))


def _refusing(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite", "fsync", "close", "mkdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EROFS])
def test_whatever_call_is_refused_the_write_is_unavailable_and_leaves_nothing(
    store: Hdf5Store, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    _write(store)  # the modules are imported, which opens files of its own
    store.delete(ID)
    shutil.rmtree(store.path_of(PartReceipt(0, "checkpoints", 0, "")))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _refusing(number))
        with pytest.raises(CheckpointUnavailable) as caught:
            _write(store)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == number
    assert os.strerror(number) in str(caught.value)
    assert not [path for path in store.path_of(PartReceipt(0, ".", 0, "")).rglob("*") if path.is_file()]
    assert store.verify_part(_write(store))


def test_a_file_system_that_is_full_half_way_is_unavailable_and_the_old_part_stays(store: Hdf5Store) -> None:
    receipt = _write(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # the kernel's own refusal, no stand-in
    try:
        with pytest.raises(CheckpointUnavailable, match="File too large"):
            _write(store, step=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    path = store.path_of(receipt)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert store.verify_part(receipt)


DELETE = """
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
import pathlib
Hdf5Store(pathlib.Path("/nowhere")).delete("step-1.a1")
"""
VERIFY = """
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import PartReceipt
import pathlib, sys
Hdf5Store(pathlib.Path(sys.argv[1])).verify_part(PartReceipt(3, *eval(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("code", "never"),
    [
        ("import slurm_resilience.checkpoint.store", "torch h5py numpy xxhash"),
        ("import slurm_resilience.checkpoint.retention", "torch h5py numpy xxhash"),
        (
            DELETE,
            "torch h5py numpy xxhash",
        ),
        (
            VERIFY,
            "torch",
        ),
    ],
    ids=["store", "retention", "delete", "verify"],
)
def test_a_verb_imports_no_more_than_it_needs(store: Hdf5Store, tmp_path: Path, code: str, never: str) -> None:
    receipt = _write(store)
    code += f"\nimport sys; sys.exit(' '.join(sys.modules.keys() & set({never.split()})) or 0)"
    rest = repr((receipt.file, receipt.bytes, receipt.checksum))
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run", rest],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_where_no_more_threads_are_allowed_a_save_is_refused_and_a_load_works(
    store: Hdf5Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = _write(store)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(CheckpointUnavailable, match="can't start new thread"):
        store.write_part("step-0000000130.a3", rank=3, state=_state(), attributes={})
    assert torch.equal(store.read_part(receipt)["model"]["w"], _state()["model"]["w"])


def test_receipts_are_deleted_before_parts(store: Hdf5Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store.path_of(_write(store)).parent
    for rank in (3, 4):
        (folder / f"rank-{rank:05d}.receipt").write_text("its word")
    unlink, gone = Path.unlink, []

    def noted(path: Path, missing_ok: bool = False) -> None:
        gone.append(path.suffix)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)
    store.delete(ID)
    assert gone == [".receipt", ".receipt", ".h5"]


@pytest.mark.parametrize("moved", ["checkpoints", f"checkpoints/{ID}", f"checkpoints/{ID}/rank-00003.h5"])
def test_what_lies_on_a_file_system_that_is_not_mounted_is_not_damaged(store: Hdf5Store, moved: str) -> None:
    receipt = _write(store)
    here = store.path_of(receipt).parents[2] / moved
    elsewhere = here.with_name("elsewhere")
    here.rename(elsewhere)
    here.symlink_to(elsewhere)
    store.verify_part(receipt)
    here.unlink()
    here.symlink_to(elsewhere.with_name("not mounted"))
    with pytest.raises(CheckpointUnavailable, match=f"{here} is not there"):
        store.read_part(receipt)
    here.unlink()
    with pytest.raises(CheckpointDamaged, match="the file is missing"):
        store.read_part(receipt)
