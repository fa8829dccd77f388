"""What every CheckpointStore must do, the fake included."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slurm_resilience.checkpoint.compare import StoredPart, compare_parts, compare_states
from slurm_resilience.checkpoint.hdf5_store import Hdf5Store
from slurm_resilience.checkpoint.store import CheckpointStore, PartReceipt
from slurm_resilience.errors import CheckpointDamaged, CheckpointUnavailable, CheckpointUnsupported
from tests.contract.memory_checkpoint_store import MemoryCheckpointStore

FIRST = "step-0000000100.a1"
SECOND = "step-0000000200.a1"


@dataclass
class Bench:
    """A store, and the accidents that can befall it."""

    store: CheckpointStore
    flip_a_bit_of_the_last_tensor: Callable[[PartReceipt], None]
    shorten: Callable[[PartReceipt], None]
    lose: Callable[[PartReceipt], None]
    swap: Callable[[PartReceipt, PartReceipt], None]
    refuse_everything: Callable[[], None]


@pytest.fixture(params=["hdf5", "memory"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    if request.param == "hdf5":
        yield _hdf5_bench(tmp_path, monkeypatch)
    else:
        yield _memory_bench()


def _hdf5_bench(root: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    store = Hdf5Store(root)

    def flip(receipt: PartReceipt) -> None:
        path = store.path_of(receipt)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)

    def swap(one: PartReceipt, other: PartReceipt) -> None:
        aside = store.path_of(one).with_suffix(".aside")
        store.path_of(one).rename(aside)
        store.path_of(other).rename(store.path_of(one))
        aside.rename(store.path_of(other))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def refuse_everything() -> None:
        for call in ("pwrite", "preadv", "unlink"):
            monkeypatch.setattr(os, call, refuse)
        monkeypatch.setattr(Path, "unlink", refuse)

    return Bench(
        store,
        flip_a_bit_of_the_last_tensor=flip,
        shorten=lambda receipt: os.truncate(store.path_of(receipt), receipt.bytes - 1),
        lose=lambda receipt: store.path_of(receipt).unlink(),
        swap=swap,
        refuse_everything=refuse_everything,
    )


def _memory_bench() -> Bench:
    store = MemoryCheckpointStore()

    def flip(receipt: PartReceipt) -> None:
        store.parts[receipt.file].content[-1] ^= 1

    def shorten(receipt: PartReceipt) -> None:
        store.parts[receipt.file].content.pop()

    def swap(one: PartReceipt, other: PartReceipt) -> None:
        parts = store.parts
        parts[one.file], parts[other.file] = parts[other.file], parts[one.file]

    def lose(receipt: PartReceipt) -> None:
        del store.parts[receipt.file]

    def refuse_everything() -> None:
        store.refusal = OSError(errno.EIO, os.strerror(errno.EIO))

    return Bench(store, flip, shorten, lose, swap, refuse_everything)


def state_of_a_training() -> dict[str, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 2, 5])
    for _ in range(3):
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
        schedule.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "random": {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()},  # noqa: NPY002
        "step": 3,
        "best": float("nan"),
        "last": torch.arange(7, dtype=torch.uint8),
    }


def test_a_training_state_comes_back_bit_for_bit(bench: Bench) -> None:
    state = state_of_a_training()
    receipt = bench.store.write_part(FIRST, rank=3, state=state, attributes={"step": 3})
    loaded = bench.store.read_part(receipt)
    assert compare_states(state, loaded) == []
    assert loaded["optimizer"]["state"].keys() == {0, 1, 2, 3, 4, 5}
    assert receipt.rank == 3


def test_a_loaded_state_is_taken_by_torch_python_and_numpy(bench: Bench) -> None:
    state = state_of_a_training()
    loaded = bench.store.read_part(bench.store.write_part(FIRST, rank=0, state=state, attributes={}))
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1]).load_state_dict(loaded["schedule"])
    random.setstate(loaded["random"]["python"])
    np.random.set_state(loaded["random"]["numpy"])  # noqa: NPY002
    torch.set_rng_state(loaded["random"]["torch"])
    assert optimizer.state_dict()["param_groups"][0]["lr"] == state["optimizer"]["param_groups"][0]["lr"]


def test_loaded_tensors_share_no_memory_with_those_that_were_saved(bench: Bench) -> None:
    weight = torch.zeros(4)
    receipt = bench.store.write_part(FIRST, rank=0, state={"w": weight}, attributes={})
    loaded = bench.store.read_part(receipt)
    weight += 1
    assert torch.equal(loaded["w"], torch.zeros(4))
    loaded["w"] += 2
    assert torch.equal(bench.store.read_part(receipt)["w"], torch.zeros(4))


def test_tied_tensors_are_written_once_and_tied_again(bench: Bench) -> None:
    tied = torch.arange(6.0).reshape(2, 3)
    state = {"embedding": tied, "head": {"w": tied.detach()}, "other": tied.clone()}
    receipt = bench.store.write_part(FIRST, rank=0, state=state, attributes={})
    loaded = bench.store.read_part(receipt)
    assert [entry.name for entry in bench.store.verify_part(receipt)] == ["embedding", "other"]
    loaded["embedding"] += 1
    assert torch.equal(loaded["head"]["w"], tied + 1)
    assert torch.equal(loaded["other"], tied)


def test_verifying_lists_the_tensors_and_reports_every_byte(bench: Bench) -> None:
    state = {"a": torch.zeros(3, 2, dtype=torch.bfloat16), "b": [np.arange(5, dtype=np.int16)], "c": torch.tensor(1)}
    receipt = bench.store.write_part(FIRST, rank=0, state=state, attributes={})
    verified: list[int] = []
    entries = bench.store.verify_part(receipt, progress=verified.append)
    assert [(entry.name, entry.dtype, entry.shape, entry.bytes) for entry in entries] == [
        ("a", "bfloat16", (3, 2), 12),
        ("b/0", "numpy:<i2", (5,), 10),
        ("c", "int64", (), 8),
    ]
    read: list[int] = []
    bench.store.read_part(receipt, progress=read.append)
    assert sum(verified) == sum(read) == 30


Accident = Callable[[Bench, PartReceipt, PartReceipt], None]
ACCIDENTS: dict[str, Accident] = {
    "one bit flipped": lambda bench, mine, other: bench.flip_a_bit_of_the_last_tensor(mine),
    "one byte short": lambda bench, mine, other: bench.shorten(mine),
    "missing": lambda bench, mine, other: bench.lose(mine),
    "swapped with another rank's": lambda bench, mine, other: bench.swap(mine, other),
}


@pytest.mark.parametrize("accident", ACCIDENTS.values(), ids=ACCIDENTS.keys())
def test_a_damaged_part_is_refused_by_reading_and_by_verifying(bench: Bench, accident: Accident) -> None:
    state = {"w": torch.arange(100)}
    mine, other = (bench.store.write_part(FIRST, rank=rank, state=state, attributes={}) for rank in range(2))
    accident(bench, mine, other)
    with pytest.raises(CheckpointDamaged) as caught:
        bench.store.read_part(mine)
    assert caught.value.path == bench.store.path_of(mine)
    with pytest.raises(CheckpointDamaged):
        bench.store.verify_part(mine)


def test_an_older_generation_under_the_same_name_is_not_taken_for_the_newer(bench: Bench) -> None:
    old = bench.store.write_part(FIRST, rank=0, state={"w": torch.tensor([1.0])}, attributes={})
    new = bench.store.write_part(FIRST, rank=0, state={"w": torch.tensor([2.0])}, attributes={})
    assert bench.store.read_part(new)["w"].item() == 2.0
    with pytest.raises(CheckpointDamaged):
        bench.store.read_part(old)


@pytest.mark.parametrize("change", [{"rank": 7}, {"bytes": 1}, {"file": "checkpoints/nowhere/rank-00000.h5"}])
def test_a_receipt_that_says_otherwise_is_never_satisfied(bench: Bench, change: dict[str, Any]) -> None:
    receipt = bench.store.write_part(FIRST, rank=0, state={"w": torch.zeros(3)}, attributes={})
    if "rank" in change and isinstance(bench.store, MemoryCheckpointStore):
        return  # the fake's content knows its rank, its receipts don't
    with pytest.raises(CheckpointDamaged):
        bench.store.read_part(replace(receipt, **change))


@pytest.mark.parametrize("value", [object(), print, random.Random(), torch.Generator(), {1, object}, errno])
def test_a_value_that_would_need_pickle_is_refused_by_name_and_nothing_is_written(bench: Bench, value: object) -> None:
    with pytest.raises(CheckpointUnsupported, match="optimizer/state/0/foo"):
        bench.store.write_part(FIRST, rank=0, state={"optimizer": {"state": {0: {"foo": value}}}}, attributes={})
    with pytest.raises(CheckpointDamaged):
        bench.store.read_part(PartReceipt(0, f"checkpoints/{FIRST}/rank-00000.h5", 1, f"xxh3-128:{'0' * 32}:1"))


def test_a_refusal_of_the_file_system_is_unavailable_with_its_number(bench: Bench) -> None:
    receipt = bench.store.write_part(FIRST, rank=0, state={"w": torch.zeros(3)}, attributes={})
    bench.refuse_everything()
    for action in (
        lambda: bench.store.write_part(SECOND, rank=0, state={"w": torch.zeros(3)}, attributes={}),
        lambda: bench.store.read_part(receipt),
        lambda: bench.store.verify_part(receipt),
        lambda: bench.store.delete(FIRST),
    ):
        with pytest.raises(CheckpointUnavailable) as caught:
            action()
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == errno.EIO


def test_deleting_takes_one_checkpoint_with_all_its_parts_and_is_harmless_twice(bench: Bench) -> None:
    gone = [bench.store.write_part(FIRST, rank=rank, state={"w": torch.zeros(3)}, attributes={}) for rank in range(2)]
    kept = bench.store.write_part(SECOND, rank=0, state={"w": torch.zeros(3)}, attributes={})
    bench.store.delete(FIRST)
    bench.store.delete(FIRST)
    bench.store.delete("step-0000009999.a9")
    for receipt in gone:
        with pytest.raises(CheckpointDamaged):
            bench.store.verify_part(receipt)
    assert bench.store.verify_part(kept)


def test_parts_of_two_runs_are_compared_bit_for_bit(bench: Bench) -> None:
    state = state_of_a_training()
    here = StoredPart(bench.store, bench.store.write_part(FIRST, rank=0, state=state, attributes={}))
    state["model"]["0.bias"] = state["model"]["0.bias"].clone()
    state["model"]["0.bias"][2] += 1
    there = StoredPart(bench.store, bench.store.write_part(SECOND, rank=0, state=state, attributes={}))
    assert compare_parts(here, here) == []
    assert [difference.name for difference in compare_parts(here, there)] == ["model/0.bias"]
    assert compare_parts(here, there, prefixes=["optimizer"]) == []
