"""The ways that are compared: each has to save and load the whole state, or it is compared with for nothing."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch

from benchmarks.checkpoint import ours, peers
from benchmarks.checkpoint.async_savers import Kept, OursAsync
from benchmarks.checkpoint.incremental import three_saves
from benchmarks.checkpoint.loop import Lap, slow_down
from benchmarks.checkpoint.machine import bytes_on_disk, empty
from benchmarks.checkpoint.raw import read_raw, warm_memory, write_raw
from benchmarks.checkpoint.state import State, bytes_in, flat_state, tensors_of, training_state
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot


@pytest.fixture(scope="module")
def state() -> State:
    return training_state(0.01)


def same(loaded: State, state: State) -> bool:
    found, expected = dict(tensors_of(loaded)), flat_state(state)
    return found.keys() == expected.keys() and all(
        torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8)) for name, tensor in expected.items()
    )


@pytest.mark.parametrize("gib", [0.001, 0.01])
def test_a_state_is_368_tensors_of_about_the_size_asked_for(gib: float) -> None:
    state = training_state(gib)
    assert len(flat_state(state)) == 368
    assert bytes_in(state) == pytest.approx(gib * 2**30, rel=0.3)


def test_a_state_of_2_gib_has_a_tensor_of_100_mb() -> None:
    from benchmarks.checkpoint.state import shapes

    sizes = [rows * columns * 4 for rows, columns in shapes(2.0).values()]
    assert 90e6 < max(sizes) < 110e6


def test_no_two_tensors_of_a_state_are_alike_and_two_states_are(state: State) -> None:
    tensors = flat_state(state).values()
    contents = {(tensor.shape, tensor.dtype, bytes(tensor.view(torch.uint8).numpy())) for tensor in tensors}
    assert len(contents) == len(tensors)
    assert same(training_state(0.01), state)


def test_what_torch_save_saves_is_loaded_whole_in_both_ways(state: State, tmp_path: Path) -> None:
    peers.save_torch_without_crc32(state, tmp_path)
    peers.save_torch(state, tmp_path)
    assert same(peers.load_torch(tmp_path), state)
    assert same(peers.load_torch_mapped(tmp_path), state)


def test_what_safetensors_saves_is_loaded_whole(state: State, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    peers.save_safetensors(state, tmp_path)
    assert same(peers.load_safetensors(tmp_path), state)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_what_dcp_saves_is_loaded_whole(state: State, tmp_path: Path, threads: int) -> None:
    peers.save_dcp(state, tmp_path, threads=threads)
    assert same(peers.load_dcp(tmp_path, state), state)


@pytest.mark.parametrize("checksums", [False, True])
def test_what_h5py_saves_has_every_byte(state: State, tmp_path: Path, *, checksums: bool) -> None:
    peers.save_h5py(state, tmp_path, checksums=checksums)
    loaded = peers.load_h5py(tmp_path)
    for name, tensor in flat_state(state).items():
        assert torch.equal(loaded[name].view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


def test_what_is_written_raw_is_read_raw(tmp_path: Path) -> None:
    memory = warm_memory(3 * 4096 + 5)
    memory[7] = 42
    write_raw(memory, tmp_path)
    for directly in (False, True):
        found = warm_memory(len(memory))
        read_raw(tmp_path, found, directly=directly)
        assert found == memory


def test_the_part_from_a_snapshot_has_the_bytes_of_the_one_written_at_once(state: State, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    receipt = ours.write_part(Hdf5Store(tmp_path / "a"), state)
    snapshot = Snapshot(rank=0)
    ours.write_arena(snapshot.take(ours.CHECKPOINT, state, ours.FACTS), tmp_path / "b")
    snapshot.close()
    assert same(ours.read_part(tmp_path / "a", receipt), state)
    assert (tmp_path / "a" / receipt.file).read_bytes() == (tmp_path / "b" / receipt.file).read_bytes()


@pytest.mark.parametrize("overlap", [False, True])
def test_our_saver_is_done_when_the_file_is_there(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, overlap: bool
) -> None:
    from benchmarks.report import REPOSITORY

    monkeypatch.chdir(REPOSITORY)
    kept = Kept(tmp_path)
    saver = OursAsync(kept, overlap=overlap)
    for name in ("step-1.a1", "step-2.a1"):
        durable = saver.begin(state, name)
        saver.before_update()
        durable.result(60)
        assert (tmp_path / "checkpoints" / name / "rank-00000.h5").stat().st_size > bytes_in(state)
    kept.close()


def test_what_is_frozen_is_written_once_and_what_changes_each_time(tmp_path: Path) -> None:
    state = training_state(0.01)
    frozen, changing = three_saves(state, tmp_path, 0.1), three_saves(state, tmp_path, 1.0)
    for save in (2, 3):
        assert frozen[f"disk_{save}_gb"] < 0.3 * frozen["disk_1_gb"]
        assert changing[f"disk_{save}_gb"] > 0.9 * changing["disk_1_gb"]


def test_a_file_with_two_names_is_on_the_disk_once_and_emptying_takes_both(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(bytes(8192))
    once = bytes_on_disk(tmp_path)
    os.link(tmp_path / "folder" / "a", tmp_path / "b")
    assert bytes_on_disk(tmp_path) == once > 0
    empty(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("during_s", "times"),
    [(0.0, 2.0), (0.15, 2.0), (0.25, 3.0), (9.0, 7 / 3)],
)
def test_only_steps_that_began_during_the_save_are_slowed_by_it(during_s: float, times: float) -> None:
    lap = Lap(steps_s=[0.2, 0.4, 0.1])
    assert list(itertools.accumulate(lap.steps_s))[-1] == pytest.approx(0.7)
    assert slow_down(lap, during_s, 0.1) == pytest.approx(times)
