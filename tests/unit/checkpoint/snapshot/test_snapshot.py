"""Snapshots: what is in the image, what memory it takes, and what happens when the state changes too early."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_resilience.checkpoint.compare import compare_states
from slurm_resilience.checkpoint.disk.image_writer import write_image
from slurm_resilience.checkpoint.disk.staged_file import StagedFile
from slurm_resilience.checkpoint.format.element_type import torch_names
from slurm_resilience.checkpoint.format.part_format import HeadChecksum
from slurm_resilience.checkpoint.format.tensor import identity
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.snapshot import batches
from slurm_resilience.checkpoint.snapshot.batches import Batch, ChangedMeanwhile
from slurm_resilience.checkpoint.snapshot.copying import Rising
from slurm_resilience.checkpoint.snapshot.snapshot import Snapshot
from slurm_resilience.checkpoint.snapshot.taken import Taken
from slurm_resilience.checkpoint.snapshot.watermark import SnapshotSpoilt
from slurm_resilience.checkpoint.store import PartReceipt
from slurm_resilience.errors import CheckpointUnsupported


@pytest.fixture
def snapshot():
    made = Snapshot(rank=3, threads=2)
    yield made
    made.close()


def write(taken: Taken, root: Path) -> PartReceipt:
    """What the writer does, in short."""
    final = root / taken.job.file
    final.parent.mkdir(parents=True, exist_ok=True)
    image = taken.job.image
    with StagedFile(final, owner="test", file_bytes=image.file_bytes) as file:
        checksum = HeadChecksum(*write_image(file, taken.arena.memory, image))
        file.publish()
    return PartReceipt(taken.job.rank, taken.job.file, image.file_bytes, str(checksum))


def _state(scale: float = 1.0) -> dict[str, Any]:
    torch.manual_seed(5)
    weight = torch.nn.Parameter(torch.randn(700, 1000) * scale)
    return {
        "model": {"weight": weight, "tied": weight, "bias": torch.randn(7).bfloat16(), "none": torch.empty(0, 3)},
        "optimizer": {
            "step": torch.tensor(3.0),
            "moments": [torch.randn(1000, 700).t(), torch.ones(3, 1).expand(3, 5)],
        },
        "numbers": {"array": np.arange(12, dtype=">f4").reshape(3, 4)[:, ::2], "scale": scale},
    }


def _deep(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _deep(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_deep(value) for value in state]
    if isinstance(state, torch.Tensor):
        return state.detach().clone().requires_grad_(state.requires_grad)
    return state.copy() if isinstance(state, np.ndarray) else state


def test_the_file_is_byte_for_byte_what_the_store_writes_without_a_snapshot(snapshot, tmp_path):
    store = Hdf5Store(tmp_path)
    taken = snapshot.take("step-1.a1", _state(), {"step": 1}, context={"why": "interval"})
    receipt = write(taken, tmp_path)
    from_snapshot = store.path_of(receipt).read_bytes()
    direct = store.write_part("step-1.a1", rank=3, state=_state(), attributes={"step": 1})
    assert (receipt, from_snapshot) == (direct, store.path_of(direct).read_bytes())
    assert taken.job.context == {"why": "interval"}


def test_what_happens_to_the_state_afterwards_does_not_reach_the_file(snapshot, tmp_path):
    state = _state()
    before = _deep(state)
    taken = snapshot.take("step-1.a1", state, {})
    state["model"]["weight"].data.fill_(9)
    state["optimizer"]["moments"][0].add_(1)
    state["model"]["bias"].untyped_storage().resize_(0)
    state["numbers"]["array"][:] = 0
    del state["optimizer"]
    gc.collect()
    assert compare_states(Hdf5Store(tmp_path).read_part(write(taken, tmp_path)), before) == []


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", torch_names())
def test_every_dtype_and_stride_comes_through(snapshot, tmp_path, name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    item_bytes = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 2 if name == "bool" else 100, (6, 5 * item_bytes), dtype=torch.uint8)
    plain = raw.view(dtype)
    state = {"plain": plain, "strided": plain.t()[::2], "scalar": plain[0, 0]}
    by_bytes = raw.reshape(6, 5, item_bytes).transpose(0, 1)[::2].contiguous()  # torch can't copy all of them itself
    dense = {**state, "strided": by_bytes.view(dtype).squeeze(-1)}
    expected = Hdf5Store(tmp_path).write_part("step-1.a1", rank=3, state=dense, attributes={})
    assert write(snapshot.take("step-1.a1", state, {}), tmp_path) == expected


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shapes=st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=25),
    dtypes=st.lists(st.sampled_from(["uint8", "float32", "float64", "bool"]), min_size=1, max_size=4),
)
def test_any_state_after_any_other_gives_the_bytes_of_a_fresh_one(snapshot, tmp_path, shapes, dtypes):
    torch.manual_seed(1)
    state = {
        str(row): (torch.rand(shape) * 9).to(getattr(torch, dtypes[row % len(dtypes)]))
        for row, shape in enumerate(shapes)
    }
    expected = Hdf5Store(tmp_path).write_part("step-1.a1", rank=3, state=state, attributes={})
    assert write(snapshot.take("step-1.a1", state, {}), tmp_path) == expected


def _our_memfds() -> set[int]:
    """Their inodes: a mapping holds a descriptor of its own."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "memfd:slurm-resilience" in str(descriptor.readlink()):
                found.add(descriptor.stat().st_ino)
    return found


def test_equal_shapes_take_their_memory_once_and_another_shape_gives_the_old_back(tmp_path):
    assert _our_memfds() == set()
    snapshot = Snapshot(rank=0)
    needed = snapshot.needs_bytes(_state())
    assert snapshot.held_bytes == 0
    descriptors = set()
    for step in range(10):
        taken = snapshot.take("step-1.a1", _state(step), {"step": step})
        descriptors.add((taken.arena.descriptor, taken.arena.size_bytes))
    assert len(descriptors) == 1
    assert snapshot.held_bytes == needed
    assert len(_our_memfds()) == 2  # the arena and the watermark

    old, mapped_elsewhere = taken.arena, os.dup(taken.arena.descriptor)
    snapshot.take("step-2.a1", {"large": torch.zeros(5 << 20)}, {})
    assert os.fstat(mapped_elsewhere).st_blocks == 0  # given back, although a writer has it mapped
    os.close(mapped_elsewhere)
    assert (old.descriptor, len(_our_memfds())) == (-1, 2)
    assert sum("memfd:slurm-resilience " in line for line in Path("/proc/self/maps").read_text().splitlines()) == 1
    snapshot.close()
    snapshot.close()
    assert _our_memfds() == set()
    assert "memfd:slurm-resilience " not in Path("/proc/self/maps").read_text()


def test_a_snapshot_that_a_writer_reads_is_not_overwritten(snapshot):
    taken = snapshot.take("step-1.a1", _state(), {})
    taken.lend()
    with pytest.raises(ValueError, match=r"step-1\.a1/rank-00003\.h5 is still being written"):
        snapshot.take("step-2.a1", _state(), {})
    taken.give_back()
    snapshot.take("step-2.a1", _state(), {})


def test_what_no_store_can_keep_is_refused_by_name(snapshot):
    with pytest.raises(CheckpointUnsupported, match="model/odd"):
        snapshot.take("step-1.a1", {"model": {"odd": object()}}, {})
    with pytest.raises(CheckpointUnsupported, match=r"step-1\.a1 can't be written"):
        snapshot.take("step-1.a1", {}, {"odd": "a" * (1 << 20), "worse": object()})


class _Held:
    """Copies of batches with guards wait at a gate."""

    def __init__(self, monkeypatch):
        self.gate = threading.Event()
        real = Batch.copy

        def held(batch: Batch) -> None:
            if batch.guards:
                assert self.gate.wait(100)
            real(batch)

        monkeypatch.setattr(batches.Batch, "copy", held)


def test_what_may_be_copied_later_is_not_waited_for_and_the_rest_is_there(snapshot, tmp_path, monkeypatch):
    held = _Held(monkeypatch)
    state = _state()
    before = _deep(state)
    later = frozenset({identity(state["model"]["weight"])})
    taken = snapshot.take("step-1.a1", state, {}, overlap=True, overlapped=later)
    assert taken.watermark.reached() < taken.job.image.file_bytes
    state["optimizer"]["moments"][0].add_(1)  # was copied before take() returned
    held.gate.set()
    taken.wait()
    assert taken.watermark.reached() == taken.job.image.file_bytes
    with torch.no_grad():
        state["model"]["weight"].zero_()
    taken.wait()
    assert compare_states(Hdf5Store(tmp_path).read_part(write(taken, tmp_path)), before) == []


def test_a_tensor_changed_before_its_turn_spoils_the_snapshot_and_not_the_next_one(snapshot, tmp_path, monkeypatch):
    held = _Held(monkeypatch)
    state = _state()
    later = frozenset({identity(state["model"]["weight"])})
    taken = snapshot.take("step-1.a1", state, {}, overlap=True, overlapped=later)
    with torch.no_grad():
        state["model"]["weight"].add_(1)
    held.gate.set()
    with pytest.raises(ChangedMeanwhile, match="model/weight"):
        taken.wait()
    with pytest.raises(SnapshotSpoilt):
        taken.watermark.reached()
    following = snapshot.take("step-2.a1", state, {})
    assert following.watermark.reached() == following.job.image.file_bytes
    assert compare_states(Hdf5Store(tmp_path).read_part(write(following, tmp_path)), state) == []


def test_the_watermark_never_promises_a_byte_that_is_not_there(snapshot, monkeypatch):
    state = {str(row): torch.full((300_000,), float(row + 1)) for row in range(12)}
    regions = snapshot._plan("step-1.a1", state, {}, {})[1].image.regions
    there = []
    real = Rising.done

    def looked_at(rising: Rising, number: int) -> None:
        real(rising, number)
        reached = snapshot._watermark.reached()
        for region, value in zip(regions, state.values(), strict=True):
            if region.offset + region.bytes <= reached:
                memory = snapshot._place.arena.memory
                image = torch.frombuffer(memory, dtype=torch.float32, count=300_000, offset=region.offset)
                there.append(torch.equal(image, value))

    monkeypatch.setattr(Rising, "done", looked_at)
    snapshot.take("step-1.a1", state, {})
    assert len(there) >= len(regions)
    assert all(there)


def test_a_copy_that_fails_comes_out_and_spoils(snapshot, monkeypatch):
    def fail(batch: Batch) -> None:
        raise RuntimeError("no such element")

    monkeypatch.setattr(batches.Batch, "copy", fail)
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="no such element"):
        snapshot.take("step-1.a1", _state(), {})
    with pytest.raises(SnapshotSpoilt):
        snapshot._watermark.reached()
    assert not [each.name for each in set(threading.enumerate()) - before if "checkpoint" in each.name]


def test_where_no_more_threads_are_allowed_all_is_copied_all_the_same(snapshot, tmp_path, monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    state = _state()
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        weight = frozenset({identity(state["model"]["weight"])})
        taken = snapshot.take("step-1.a1", state, {}, overlap=True, overlapped=weight)
        taken.wait()
    assert compare_states(Hdf5Store(tmp_path).read_part(write(taken, tmp_path)), state) == []


def test_a_state_without_tensors_is_a_snapshot_too(snapshot, tmp_path):
    taken = snapshot.take("step-1.a1", {"x": 1}, {})
    assert taken.watermark.reached() == taken.job.image.file_bytes
    assert Hdf5Store(tmp_path).read_part(write(taken, tmp_path)) == {"x": 1}
    assert os.fstat(taken.arena.descriptor).st_size >= taken.job.image.file_bytes


def test_closing_leaves_a_writer_what_it_reads(tmp_path):
    snapshot = Snapshot(rank=3)
    taken = snapshot.take("step-1.a1", _state(), {})
    expected = bytes(taken.arena.memory)
    writers = os.dup(taken.arena.descriptor)
    taken.lend()
    snapshot.close()
    assert os.pread(writers, len(expected), 0) == expected
    os.close(writers)
